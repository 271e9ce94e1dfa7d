// Control flow, calls, tuples, and exchange with the world outside.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "shardway/ir/verify/check.h"

namespace shardway::ir::verify {
namespace {

void VerifyWhile(Check& c) {
  if (!c.Counts(-1, -1, 2)) return;
  const std::vector<Type> carried = TypesOf(c.op().operands);
  if (!c.Require(c.num_in() == c.num_out(), "it has not one result for each operand")) return;
  for (size_t i = 0; i < c.num_out(); ++i) c.SameAsOperand(i, i);
  if (c.Signature(*c.op().regions[0], carried, {Type::Scalar(ElementType::kI1)})) {
    c.Signature(*c.op().regions[1], carried, carried);
  }
}

void VerifyBranches(Check& c, ElementType selector) {
  if (!c.Counts(1, -1, -1)) return;
  c.Require(IsScalar(c.in()) && c.in().element == selector, "its selector has another type");
  c.Require(!c.op().regions.empty(), "it has no branch");
  c.Require(c.op().kind != OpKind::kIf || c.op().regions.size() == 2, "it has not two branches");
  const std::vector<Type> results = TypesOf(c.op().results);
  for (const Region* branch : c.op().regions) c.Signature(*branch, {}, results);
}

void VerifyBarrier(Check& c) {
  if (!c.Counts(-1, static_cast<int>(c.num_in()))) return;
  for (size_t i = 0; i < c.num_in(); ++i) c.SameAsOperand(i, i);
}

void VerifyTuple(Check& c) {
  if (!c.Counts(-1)) return;
  c.Require(c.out().is_tuple() && *c.out().tuple == TypesOf(c.op().operands),
            "its result is not the tuple of its operands");
}

void VerifyGetTupleElement(Check& c) {
  if (!c.Counts(1) || !c.Require(c.in().is_tuple(), "its operand is no tuple") ||
      !c.IntIn("index", 0, static_cast<int64_t>(c.in().tuple->size()), ElementType::kI32)) {
    return;
  }
  c.Require((*c.in().tuple)[c.op().Int("index")] == c.out(), "its result has another type");
}

// The function that an attribute names, with operands and results like the operator's.
void VerifyCallee(Check& c, std::string_view attribute) {
  const std::string_view name = c.op().String(attribute);
  const Function* callee = c.module().FindFunction(name);
  if (!c.Require(callee != nullptr,
                 absl::StrCat("it calls @", std::string(name), ", which does not exist"))) {
    return;
  }
  const auto& arguments = callee->arguments();
  bool same = arguments.size() == c.num_in() && callee->result_types.size() == c.num_out();
  for (size_t i = 0; same && i < c.num_in(); ++i) same = SameType(arguments[i]->type, c.in(i));
  for (size_t i = 0; same && i < c.num_out(); ++i) {
    same = SameType(callee->result_types[i], c.out(i));
  }
  c.Require(same, absl::StrCat("it calls @", std::string(name), " with other types"));
}

// [a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+
bool IsNamespaced(std::string_view name) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(absl::string_view(name.data(), name.size()), '.');
  if (parts.size() < 2 || parts[0].empty() || !absl::ascii_isalpha(parts[0][0])) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) return false;
    for (const char c : parts[i]) {
      if (!absl::ascii_isalnum(c) && c != '_' && (c != '$' || i == 0)) return false;
    }
  }
  return true;
}

// Follows tuple indices from `type`; null when they lead nowhere.
const Type* Element(const Type* type, const std::vector<int64_t>& indices) {
  for (const int64_t i : indices) {
    if (!type->is_tuple() || i < 0 || i >= static_cast<int64_t>(type->tuple->size())) {
      return nullptr;
    }
    type = &(*type->tuple)[i];
  }
  return type;
}

void VerifyAliases(Check& c, const AttrArray& aliases) {
  for (const Attribute& attribute : aliases) {
    const auto* alias = attribute.get_if<OutputOperandAlias>();
    const bool in_range = alias != nullptr && alias->operand_index >= 0 &&
                          alias->operand_index < static_cast<int64_t>(c.num_in());
    if (!c.Require(in_range, "an output_operand_alias names no operand")) return;
    // Several results count as one tuple.
    std::vector<int64_t> output = alias->output_tuple_indices;
    size_t result = 0;
    if (c.num_out() != 1 && !output.empty()) {
      result = output[0] < 0 ? c.num_out() : static_cast<size_t>(output[0]);
      output.erase(output.begin());
    }
    const Type* to = result < c.num_out() ? Element(&c.out(result), output) : nullptr;
    const Type* from = Element(&c.in(alias->operand_index), alias->operand_tuple_indices);
    c.Require(to != nullptr && from != nullptr && SameType(*to, *from),
              "an output_operand_alias joins different types");
  }
}

constexpr int64_t kTypedFfi = 4;  // the last api_version

// Each layout lists its value's dimensions, minor to major.
bool VerifyLayouts(Check& c, const AttrArray& layouts, const std::vector<Value*>& values) {
  if (!c.Require(layouts.size() == values.size(), "it has not one layout for each value")) {
    return false;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const Type& type = values[i]->type;
    const auto* list = layouts[i].get_if<std::vector<int64_t>>();
    if (!c.Require(list != nullptr && list->size() == (type.is_tensor() ? type.dims.size() : 0),
                   "a layout is no list of its value's dimensions")) {
      return false;
    }
    std::vector<int64_t> dims = *list;
    std::sort(dims.begin(), dims.end());
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!c.Require(dims[d] == static_cast<int64_t>(d), "a layout is no permutation"))
        return false;
    }
  }
  return true;
}

void VerifyCustomCall(Check& c) {
  c.Require(!c.op().String("call_target_name").empty(), "it names no target");
  if (c.op().Find("api_version") != nullptr &&
      !c.IntIn("api_version", 0, kTypedFfi + 1, ElementType::kI32)) {
    return;
  }
  const Attribute* config = c.op().Find("backend_config");
  if (c.op().Int("api_version") == kTypedFfi && config != nullptr &&
      !c.Require(config->get_if<std::shared_ptr<const AttrDict>>() != nullptr,
                 "its backend_config is no dictionary")) {
    return;
  }
  for (const std::string_view name :
       {"called_computations", "output_operand_aliases", "operand_layouts", "result_layouts"}) {
    const Attribute* attribute = c.op().Find(name);
    if (attribute == nullptr) continue;
    const auto* array = attribute->get_if<std::shared_ptr<const AttrArray>>();
    if (!c.Require(array != nullptr, absl::StrCat(std::string(name), " is no array"))) return;
    if (name == "output_operand_aliases") VerifyAliases(c, **array);
    if (name == "operand_layouts" && !VerifyLayouts(c, **array, c.op().operands)) return;
    if (name == "result_layouts" && !(c.num_out() == 1 && c.out().is_tuple()) &&
        !VerifyLayouts(c, **array, c.op().results)) {
      return;
    }
    if (name != "called_computations") continue;
    for (const Attribute& symbol : **array) {
      const auto* ref = symbol.get_if<FlatSymbolRef>();
      c.Require(ref != nullptr && c.module().FindFunction(ref->name) != nullptr,
                "it calls a function that does not exist");
    }
  }
}

void VerifyAsync(Check& c) {
  if (c.op().kind == OpKind::kAsyncStart) {
    if (c.Counts(-1, 1, 1)) c.Require(c.out().is_future(), "its result is no future");
    return;
  }
  if (!c.Counts(1, -1) || !c.Require(c.in().is_future(), "its operand is no future")) return;
  c.Require(*c.in().tuple == TypesOf(c.op().results), "its results are not the future's");
}

// One token comes last among operands and results.
void VerifyTokens(Check& c) {
  if (!c.Counts(-1, -1)) return;
  c.Require(c.num_in() >= 1 && c.in(c.num_in() - 1).is_token(), "its last operand is no token");
  c.Require(c.num_out() >= 1 && c.out(c.num_out() - 1).is_token(), "its last result is no token");
}

void VerifyAfterAll(Check& c) {
  if (!c.Counts(-1)) return;
  c.Require(c.out().is_token(), "its result is no token");
  for (size_t i = 0; i < c.num_in(); ++i) c.Require(c.in(i).is_token(), "an operand is no token");
}

}  // namespace

void VerifyControl(Check& c) {
  switch (c.op().kind) {
    case OpKind::kWhile:
      return VerifyWhile(c);
    case OpKind::kIf:
      return VerifyBranches(c, ElementType::kI1);
    case OpKind::kCase:
      return VerifyBranches(c, ElementType::kI32);
    case OpKind::kOptimizationBarrier:
      return VerifyBarrier(c);
    case OpKind::kTuple:
      return VerifyTuple(c);
    case OpKind::kGetTupleElement:
      return VerifyGetTupleElement(c);
    case OpKind::kCall:
      if (c.Counts(-1, -1)) VerifyCallee(c, "callee");
      return;
    case OpKind::kComposite:
      if (c.Counts(-1, -1, -1)) {
        VerifyCallee(c, "decomposition");
        const Attribute* given = c.op().Find("composite_attributes");
        c.Require(given == nullptr || given->get_if<std::shared_ptr<const AttrDict>>() != nullptr,
                  "its composite_attributes are no dictionary");
        c.Require(IsNamespaced(c.op().String("name")), "its name is not like namespace.name");
      }
      return;
    case OpKind::kCustomCall:
      if (c.Counts(-1, -1)) VerifyCustomCall(c);
      return;
    case OpKind::kAsyncStart:
    case OpKind::kAsyncDone:
      return VerifyAsync(c);
    case OpKind::kInfeed:
    case OpKind::kOutfeed:
    case OpKind::kSend:
    case OpKind::kRecv:
      return VerifyTokens(c);
    case OpKind::kAfterAll:
    case OpKind::kCreateToken:
      return VerifyAfterAll(c);
    default:
      return;
  }
}

}  // namespace shardway::ir::verify
