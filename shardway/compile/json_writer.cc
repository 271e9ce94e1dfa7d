#include "shardway/compile/json_writer.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace shardway::compile {
namespace {

// The length of the well-formed UTF-8 sequence that `text` begins with; 0 when there is none.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const size_t length = byte(0) < 0x80   ? 1
                        : byte(0) < 0xc2 ? 0
                        : byte(0) < 0xe0 ? 2
                        : byte(0) < 0xf0 ? 3
                        : byte(0) < 0xf5 ? 4
                                         : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

void JsonWriter::Separate() {
  if (!first_) out_ += ',';
  first_ = false;
}

JsonWriter& JsonWriter::Open(char c) {
  Separate();
  out_ += c;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::Close(char c) {
  out_ += c;
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::Raw(std::string_view text) {
  Separate();
  out_ += text;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Separate();
  Quote(key);
  out_ += ':';
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view text) {
  Separate();
  Quote(text);
  return *this;
}

JsonWriter& JsonWriter::Number(double value) {
  constexpr double kExact = 1e15;
  if (std::trunc(value) == value && std::abs(value) < kExact) {
    return Raw(absl::StrCat(static_cast<int64_t>(value)));
  }
  return Raw(absl::StrFormat("%.17g", value));
}

void JsonWriter::Quote(std::string_view text) {
  out_ += '"';
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const char c = text[0];
    if (length == 0) {
      out_ += '?';
    } else if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out_ += absl::StrFormat("\\u%04x", c);
    } else {
      out_ += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out_ += '"';
}

}  // namespace shardway::compile
