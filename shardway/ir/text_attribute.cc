#include "absl/strings/str_cat.h"
#include "shardway/ir/scalar.h"
#include "shardway/ir/text_parts.h"

namespace shardway::ir::text {
namespace {

bool IsBareChar(char c, bool first) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_') return true;
  return !first && ((c >= '0' && c <= '9') || c == '$' || c == '.');
}

bool IsBare(std::string_view name) {
  for (size_t i = 0; i < name.size(); ++i) {
    if (!IsBareChar(name[i], i == 0)) return false;
  }
  return !name.empty();
}

// One alternative of Attribute::Value each.
struct Printer {
  std::string& out;
  const TextOptions& options;

  void operator()(const Unit&) const { out += "unit"; }
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(int64_t value) const { absl::StrAppend(&out, value, " : i64"); }
  void operator()(const std::string& value) const { AppendQuoted(out, value); }
  void operator()(const std::vector<int64_t>& values) const {
    out += values.empty() ? "array<i64" : "array<i64: ";
    AppendInts(out, values);
    out += '>';
  }
  void operator()(const std::vector<bool>& values) const {
    out += "array<i1";
    for (size_t i = 0; i < values.size(); ++i) {
      out += i == 0 ? ": " : ", ";
      out += values[i] ? "true" : "false";
    }
    out += '>';
  }
  void operator()(const TypedInt& value) const {
    if (value.type == ElementType::kI1) {
      out += value.value != 0 ? "true" : "false";
      return;
    }
    if (value.type == ElementType::kUI64) {
      absl::StrAppend(&out, static_cast<uint64_t>(value.value));
    } else {
      absl::StrAppend(&out, value.value);
    }
    out += " : ";
    out += ElementTypeName(value.type);
  }
  void operator()(const TypedFloat& value) const {
    AppendFloat(out, value.type, ElementFromDouble(value.type, value.value));
    out += " : ";
    out += ElementTypeName(value.type);
  }
  void operator()(const EnumAttr& value) const {
    out += "#stablehlo<";
    out += value.kind;
    out += ' ';
    out += value.value;
    out += '>';
  }
  void operator()(const RawAttr& value) const { out += value.text; }
  void operator()(const FlatSymbolRef& value) const { AppendSymbol(out, value.name); }
  void operator()(const Type& value) const { value.AppendTo(out); }
  void operator()(const Constant& value) const {
    AppendConstant(out, value, options.max_constant_bytes);
  }
  void operator()(const std::shared_ptr<const AttrArray>& values) const {
    out += '[';
    for (size_t i = 0; i < values->size(); ++i) {
      if (i > 0) out += ", ";
      AppendAttribute(out, (*values)[i], options);
    }
    out += ']';
  }
  void operator()(const std::shared_ptr<const AttrDict>& dict) const {
    if (dict->empty()) {
      out += "{}";
    } else {
      AppendDict(out, *dict, options);
    }
  }
  void operator()(const SdySharding& sharding) const {
    out += "#sdy.sharding";
    AppendSharding(out, sharding);
  }
  void operator()(const SdyPerValue& value) const {
    out += "#sdy.sharding_per_value<[";
    for (size_t i = 0; i < value.shardings.size(); ++i) {
      if (i > 0) out += ", ";
      AppendSharding(out, value.shardings[i]);
    }
    out += "]>";
  }
  void operator()(const SdyManualAxes& value) const {
    out += "#sdy<manual_axes{";
    for (size_t i = 0; i < value.axes.size(); ++i) {
      if (i > 0) out += ", ";
      AppendQuoted(out, value.axes[i]);
    }
    out += "}>";
  }
  void operator()(const SdyMesh& mesh) const {
    out += "#sdy.mesh";
    AppendMesh(out, mesh);
  }
  void operator()(const SdyShardingRule& rule) const {
    out += "#sdy.op_sharding_rule";
    AppendShardingRule(out, rule);
  }
  void operator()(const std::vector<SdyAxisRef>& axes) const {
    out += "#sdy<axis_ref_list{";
    AppendAxes(out, axes);
    out += "}>";
  }
  void operator()(const std::vector<std::vector<SdyAxisRef>>& lists) const {
    out += "#sdy<list_of_axis_ref_lists[";
    for (size_t i = 0; i < lists.size(); ++i) {
      out += i == 0 ? "{" : ", {";
      AppendAxes(out, lists[i]);
      out += '}';
    }
    out += "]>";
  }
  void operator()(const SdyAllToAllParams& params) const {
    out += "#sdy<all_to_all_param_list[";
    AppendAllToAllParams(out, params);
    out += "]>";
  }
  void operator()(const OutputOperandAlias& alias) const {
    out += "#stablehlo.output_operand_alias<output_tuple_indices = [";
    AppendInts(out, alias.output_tuple_indices);
    absl::StrAppend(&out, "], operand_index = ", alias.operand_index,
                    ", operand_tuple_indices = [");
    AppendInts(out, alias.operand_tuple_indices);
    out += "]>";
  }
};

}  // namespace

void AppendQuoted(std::string& out, std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '"' || c == '\\') {
      out += '\\';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void AppendName(std::string& out, std::string_view name) {
  if (IsBare(name)) {
    out += name;
  } else {
    AppendQuoted(out, name);
  }
}

void AppendSymbol(std::string& out, std::string_view name) {
  out += '@';
  AppendName(out, name);
}

void AppendInts(std::string& out, const std::vector<int64_t>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ", ";
    absl::StrAppend(&out, values[i]);
  }
}

void AppendAttribute(std::string& out, const Attribute& attribute, const TextOptions& options) {
  std::visit(Printer{out, options}, attribute.value);
}

void AppendDict(std::string& out, const AttrDict& dict, const TextOptions& options) {
  bool first = true;
  for (const auto& [name, attribute] : dict) {
    if (!options.sdy && name.starts_with("sdy.")) continue;
    out += first ? "{" : ", ";
    first = false;
    AppendName(out, name);
    if (attribute.get_if<Unit>() != nullptr) continue;
    out += " = ";
    AppendAttribute(out, attribute, options);
  }
  if (!first) out += '}';
}

}  // namespace shardway::ir::text
