#include "shardway/ir/bytecode/normalise.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include "shardway/ir/bytecode/mesh_groups.h"

namespace shardway::ir::bytecode {
namespace {

using Normal = std::optional<Attribute>;

// Lists of dimensions and of devices are never longer.
constexpr int64_t kMaxList = 1 << 21;

std::string FormatDouble(double value) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value);
  std::string text(digits, end.ptr);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  const size_t e = text.find('e');
  if (e != std::string::npos && text.find('.') == std::string::npos) text.insert(e, ".0");
  return text;
}

bool IsBounded(const Accuracy& accuracy) {
  return accuracy.atol != 0 || accuracy.rtol != 0 || accuracy.ulps != 0;
}

std::string TextOf(const AccuracyMode& mode) {
  return absl::StrCat("#stablehlo.result_accuracy_mode<", std::string(mode.name), ">");
}

std::string TextOf(const Accuracy& accuracy) {
  std::string text = "#stablehlo.result_accuracy<";
  if (IsBounded(accuracy)) {
    absl::StrAppend(&text, "atol = ", FormatDouble(accuracy.atol),
                    ", rtol = ", FormatDouble(accuracy.rtol), ", ulps = ", accuracy.ulps, ", ");
  }
  absl::StrAppend(&text, "mode = ", TextOf(AccuracyMode{accuracy.mode}), ">");
  return text;
}

std::string TextOf(const FunctionType& function) {
  std::string text = "(";
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", function.inputs[i].ToString());
  }
  text += ") -> (";
  for (size_t i = 0; i < function.results.size(); ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", function.results[i].ToString());
  }
  text += ")";
  return text;
}

class Normaliser {
 public:
  Normaliser(const OpSpec& op, const OpSpec::Attribute& attribute, Pool& pool)
      : op_(op), attribute_(attribute), pool_(pool) {}

  Normal Apply(const DecodedAttribute& decoded) {
    // The two rules whose input is no ir::Attribute.
    if (attribute_.rule == Rule::kAccuracy) return AccuracyText(decoded);
    if (const auto* groups = std::get_if<MeshAxisGroups>(&decoded)) return Groups(*groups);
    if (std::holds_alternative<NoneTypeAttr>(decoded)) {
      if (attribute_.rule == Rule::kElement || attribute_.rule == Rule::kUnlessNone) return {};
      return Bad();
    }
    const auto* value = std::get_if<Attribute>(&decoded);
    return value == nullptr ? Bad() : Apply(*value);
  }

 private:
  Normal Apply(const Attribute& value) {
    switch (attribute_.rule) {
      case Rule::kInt32: {
        const auto* typed = value.get_if<TypedInt>();
        return typed != nullptr && typed->type == ElementType::kI32 ? Normal(value) : Bad();
      }
      case Rule::kKeep:
      case Rule::kUnlessNone:
      case Rule::kAccuracy:
        return value;
      case Rule::kInts:
        return Ints(value, /*keep_empty=*/true);
      case Rule::kNonEmptyInts:
      case Rule::kPairs:
        return Ints(value, /*keep_empty=*/false);
      case Rule::kBools:
        return Bools(value);
      case Rule::kGroups:
        return Groups(value);
      case Rule::kSymbol:
        return Symbol(value);
      case Rule::kSymbols:
        return Symbols(value);
      case Rule::kFlag: {
        const bool* flag = value.get_if<bool>();
        if (flag == nullptr) return Bad();
        return *flag ? Normal(value) : std::nullopt;
      }
      case Rule::kNonZero: {
        const auto* typed = value.get_if<TypedInt>();
        const auto* plain = value.get_if<int64_t>();
        if (typed == nullptr && plain == nullptr) return Bad();
        return (typed != nullptr ? typed->value : *plain) != 0 ? Normal(value) : std::nullopt;
      }
      case Rule::kNonEmpty:
        return NonEmpty(value);
      case Rule::kPrecisions:
        return Precisions(value);
      case Rule::kEnum: {
        const auto* enumerator = value.get_if<EnumAttr>();
        const std::string_view kind =
            attribute_.name == "transpose_a" ? std::string_view("transpose") : attribute_.name;
        return enumerator != nullptr && enumerator->kind == kind ? Normal(value) : Bad();
      }
      case Rule::kCompareType: {
        const auto* type = value.get_if<EnumAttr>();
        if (type == nullptr || type->kind != "comparison_type") return Bad();
        return type->value == "NOTYPE" ? std::nullopt : Normal(value);
      }
      case Rule::kApiVersion: {
        const auto* version = value.get_if<TypedInt>();
        if (version == nullptr) return Bad();
        return version->value == 1 ? std::nullopt : Normal(value);
      }
      case Rule::kElement:
        return Element(value);
      case Rule::kDrop:
        return {};
    }
    return Bad();
  }

  Normal Bad() {
    pool_.errors()->Invalid(absl::StrCat("the attribute '", attribute_.name, "' of ", op_.name,
                                         " has an unexpected form"));
    return {};
  }

  // The elements of a constant of integers, counted against the artifact's allowance.
  std::optional<std::vector<int64_t>> Elements(const Attribute& value) {
    const auto* constant = value.get_if<Constant>();
    if (constant == nullptr || !IsInteger(constant->type.element) ||
        constant->type.num_elements() > kMaxList) {
      Bad();
      return {};
    }
    if (!pool_.Charge(constant->type.num_elements() / 8)) return {};
    return constant->Ints();
  }

  Normal Ints(const Attribute& value, bool keep_empty) {
    if (value.get_if<std::vector<int64_t>>() != nullptr) return value;
    auto elements = Elements(value);
    if (!elements || (elements->empty() && !keep_empty)) return {};
    return Attribute(*std::move(elements));
  }

  Normal Bools(const Attribute& value) {
    const auto* constant = value.get_if<Constant>();
    if (constant == nullptr || constant->type.element != ElementType::kI1 ||
        constant->type.num_elements() > kMaxList) {
      return Bad();
    }
    std::vector<bool> flags;
    for (const int64_t flag : constant->Ints()) flags.push_back(flag != 0);
    return Attribute(std::move(flags));
  }

  Normal Groups(const Attribute& value) {
    const auto* constant = value.get_if<Constant>();
    if (constant == nullptr || constant->type.rank() != 2) return Bad();
    auto elements = Elements(value);
    if (!elements) return {};
    return Attribute(Constant::FromInts(constant->type, *elements));
  }

  Normal Groups(const MeshAxisGroups& groups) {
    if (attribute_.rule != Rule::kGroups) return Bad();
    const SdyMesh* mesh = groups.mesh ? &*groups.mesh : pool_.module()->FindMesh(groups.mesh_name);
    if (mesh == nullptr) {
      pool_.errors()->Invalid(
          absl::StrCat("replica groups name the mesh @", groups.mesh_name, ", which is missing"));
      return {};
    }
    auto constant = ExpandMeshAxes(*mesh, groups.axes);
    if (!constant.ok()) {
      pool_.errors()->Invalid(std::string(constant.status().message()));
      return {};
    }
    if (!pool_.Charge(constant->type.num_elements() / 8)) return {};
    return Attribute(*std::move(constant));
  }

  Normal Symbol(const Attribute& value) {
    if (value.get_if<FlatSymbolRef>() != nullptr) return value;
    const auto* name = value.get_if<std::string>();
    return name == nullptr ? Bad() : Normal(Attribute(FlatSymbolRef{*name}));
  }

  Normal Symbols(const Attribute& value) {
    const auto* array = value.get_if<std::shared_ptr<const AttrArray>>();
    if (array == nullptr) return Bad();
    if ((*array)->empty()) return {};
    AttrArray symbols;
    for (const Attribute& element : **array) {
      Normal symbol = Symbol(element);
      if (!symbol) return {};
      symbols.push_back(*std::move(symbol));
    }
    return Attribute(std::make_shared<const AttrArray>(std::move(symbols)));
  }

  Normal NonEmpty(const Attribute& value) {
    if (const auto* text = value.get_if<std::string>()) {
      return text->empty() ? std::nullopt : Normal(value);
    }
    if (const auto* array = value.get_if<std::shared_ptr<const AttrArray>>()) {
      return (*array)->empty() ? std::nullopt : Normal(value);
    }
    if (const auto* dict = value.get_if<std::shared_ptr<const AttrDict>>()) {
      return (*dict)->empty() ? std::nullopt : Normal(value);
    }
    // An array without elements may have been read as one of axes.
    if (const auto* axes = value.get_if<std::vector<SdyAxisRef>>(); axes && axes->empty())
      return {};
    return Bad();
  }

  Normal Precisions(const Attribute& value) {
    const auto* array = value.get_if<std::shared_ptr<const AttrArray>>();
    if (array == nullptr) return Bad();
    bool usual = true;
    for (const Attribute& element : **array) {
      const auto* precision = element.get_if<EnumAttr>();
      if (precision == nullptr || precision->kind != "precision") return Bad();
      usual = usual && precision->value == "DEFAULT";
    }
    return usual ? std::nullopt : Normal(value);
  }

  Normal Element(const Attribute& value) {
    const auto* raw = value.get_if<RawAttr>();
    const auto element = raw == nullptr ? std::nullopt : ElementTypeFromName(raw->text);
    if (!element) return Bad();
    return Attribute(Type::Scalar(*element));
  }

  Normal AccuracyText(const DecodedAttribute& decoded) {
    const auto* accuracy = std::get_if<Accuracy>(&decoded);
    // Only a tolerance has bounds, none of them negative (or no number).
    if (accuracy == nullptr || IsBounded(*accuracy) != (accuracy->mode == "TOLERANCE") ||
        !(accuracy->atol >= 0) || !(accuracy->rtol >= 0) || accuracy->ulps < 0) {
      return Bad();
    }
    if (accuracy->mode == "DEFAULT") return {};
    return Attribute(RawAttr{TextOf(*accuracy)});
  }

  const OpSpec& op_;
  const OpSpec::Attribute& attribute_;
  Pool& pool_;
};

bool IsEmptyArray(const Attribute* attribute) {
  if (attribute == nullptr) return true;
  const auto* array = attribute->get_if<std::shared_ptr<const AttrArray>>();
  return array != nullptr && (*array)->empty();
}

}  // namespace

std::optional<Attribute> Normalise(const OpSpec& op, const OpSpec::Attribute& attribute,
                                   const DecodedAttribute& decoded, Pool& pool) {
  return Normaliser(op, attribute, pool).Apply(decoded);
}

std::optional<Attribute> Discardable(const DecodedAttribute& decoded) {
  if (const auto* attribute = std::get_if<Attribute>(&decoded)) return *attribute;
  if (const auto* accuracy = std::get_if<Accuracy>(&decoded)) return RawAttr{TextOf(*accuracy)};
  if (const auto* mode = std::get_if<AccuracyMode>(&decoded)) return RawAttr{TextOf(*mode)};
  if (const auto* type = std::get_if<FunctionTypeRef>(&decoded))
    return RawAttr{TextOf(*type->type)};
  if (std::holds_alternative<NoneTypeAttr>(decoded)) return RawAttr{"none"};
  return std::nullopt;
}

void FinishAttributes(Op& op) {
  if (op.kind == OpKind::kCustomCall && IsEmptyArray(op.Find("operand_layouts")) &&
      IsEmptyArray(op.Find("result_layouts"))) {
    Erase(op.attributes, "operand_layouts");
    Erase(op.attributes, "result_layouts");
  }
  if (op.kind == OpKind::kSort && !op.operands.empty() && op.Int("dimension") < 0) {
    Set(op.attributes, "dimension", op.Int("dimension") + op.operand(0)->type.rank());
  }
}

}  // namespace shardway::ir::bytecode
