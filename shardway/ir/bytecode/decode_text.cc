// Attributes and types that MLIR wrote as assembly text because their dialect has no binary form
// for them: mostly the narrow floats, and unregistered attributes, which we pass on as they are.
#include "shardway/ir/bytecode/pool.h"

namespace shardway::ir::bytecode {
namespace {

// Whether `text` could stand alone as one attribute: brackets balanced outside of strings and
// nothing unprintable. It will be pasted into our own text.
bool IsSelfContained(std::string_view text) {
  std::string open;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) < 0x20) return false;
    if (quoted) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        quoted = false;
      }
      continue;
    }
    switch (c) {
      case '"':
        quoted = true;
        break;
      case '(':
        open += ')';
        break;
      case '[':
        open += ']';
        break;
      case '{':
        open += '}';
        break;
      case '<':
        open += '>';
        break;
      case '>':
        if (i > 0 && text[i - 1] == '-') break;  // "->"
        [[fallthrough]];
      case ')':
      case ']':
      case '}':
        if (open.empty() || open.back() != c) return false;
        open.pop_back();
        break;
      case ',':
        if (open.empty()) return false;
        break;
      case '/':  // "//" would comment out what follows
        return false;
      default:
        break;
    }
  }
  return open.empty() && !quoted && !text.empty();
}

}  // namespace

DecodedAttribute DecodeTextAttribute(std::string_view text) {
  if (!IsSelfContained(text)) return {};
  return Attribute(RawAttr{std::string(text)});
}

DecodedType DecodeTextType(std::string_view text) {
  if (const auto element = ElementTypeFromName(text)) return *element;
  if (text == "!stablehlo.token") return Type::Token();
  if (text == "index") return IndexType{};
  if (text == "none") return NoneType{};
  return UnsupportedType{absl::StrCat("the type ", std::string(text))};
}

}  // namespace shardway::ir::bytecode
