#include "shardway/ir/verify/check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shardway::ir::verify {

bool SameShape(const Type& a, const Type& b) {
  if (a.dims.size() != b.dims.size()) return false;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    if (!SameSize(a.dims[i], b.dims[i])) return false;
  }
  return true;
}

bool SameType(const Type& a, const Type& b) {
  if (a == b) return true;
  return a.kind == b.kind && a.is_tensor() && a.element == b.element && SameShape(a, b);
}

std::vector<Type> TypesOf(const std::vector<Value*>& values) {
  std::vector<Type> types;
  types.reserve(values.size());
  for (const Value* value : values) types.push_back(value->type);
  return types;
}

bool Check::Fail(std::string_view what) {
  if (status_.ok()) {
    status_ =
        absl::InvalidArgumentError(absl::StrCat(std::string(OpKindName(op_.kind)), " at ",
                                                op_.location->ToString(), ": ", std::string(what)));
  }
  return false;
}

bool Check::Counts(int operands, int results, int regions) {
  auto fits = [](int wanted, size_t count) {
    return wanted < 0 || static_cast<size_t>(wanted) == count;
  };
  if (!fits(operands, num_in())) {
    return Fail(absl::StrCat("it has ", num_in(), " operands, not ", operands));
  }
  if (!fits(results, num_out())) {
    return Fail(absl::StrCat("it has ", num_out(), " results, not ", results));
  }
  if (!fits(regions, op_.regions.size())) {
    return Fail(absl::StrCat("it has ", op_.regions.size(), " regions, not ", regions));
  }
  return true;
}

bool Check::AllTensors() {
  for (const Value* value : op_.operands) {
    if (!value->type.is_tensor()) return Fail("an operand is no tensor");
  }
  for (const Value* value : op_.results) {
    if (!value->type.is_tensor()) return Fail("a result is no tensor");
  }
  return true;
}

bool Check::ResultDims(const std::vector<Wide>& dims, size_t result) {
  const Type& type = out(result);
  bool same = type.dims.size() == dims.size();
  for (size_t i = 0; same && i < dims.size(); ++i) {
    same = dims[i] < 0 || type.dims[i] == kDynamic || dims[i] == type.dims[i];
  }
  return same || Fail(absl::StrCat("its result is ", type.ToString(),
                                   ", which is not what its operands and attributes give"));
}

bool Check::SameAsOperand(size_t result, size_t operand) {
  return SameType(out(result), in(operand)) ||
         Fail(absl::StrCat("a result is ", out(result).ToString(), ", its operand ",
                           in(operand).ToString()));
}

const std::vector<int64_t>* Check::List(std::string_view name, int64_t size) {
  const Attribute* attribute = op_.Find(name);
  const auto* list = attribute == nullptr ? nullptr : attribute->get_if<std::vector<int64_t>>();
  if (list == nullptr || (size >= 0 && static_cast<int64_t>(list->size()) != size)) {
    Fail(absl::StrCat("its attribute ", std::string(name), " is missing or of the wrong length"));
    return nullptr;
  }
  return list;
}

const std::vector<int64_t>* Check::Dimensions(std::string_view name, int rank) {
  const auto* list = &op_.IntList(name);
  std::vector<bool> seen(rank, false);
  for (const int64_t d : *list) {
    if (d < 0 || d >= rank || seen[d]) {
      Fail(absl::StrCat("its attribute ", std::string(name), " is no set of dimensions of a rank-",
                        rank, " tensor"));
      return nullptr;
    }
    seen[d] = true;
  }
  return list;
}

bool Check::IntIn(std::string_view name, int64_t low, int64_t high, ElementType type) {
  const Attribute* attribute = op_.Find(name);
  const auto* typed = attribute != nullptr ? attribute->get_if<TypedInt>() : nullptr;
  const bool plain = attribute != nullptr && attribute->get_if<int64_t>() != nullptr;
  const bool is_int = typed != nullptr ? typed->type == type : plain && type == ElementType::kI64;
  const int64_t value = op_.Int(name);
  return (is_int && value >= low && value < high) ||
         Fail(absl::StrCat("its attribute ", std::string(name), " is missing or out of range"));
}

bool Check::Signature(const Region& region, const std::vector<Type>& arguments,
                      const std::vector<Type>& results) {
  auto same = [](const std::vector<Value*>& values, const std::vector<Type>& types) {
    return values.size() == types.size() &&
           std::equal(values.begin(), values.end(), types.begin(),
                      [](const Value* v, const Type& t) { return SameType(v->type, t); });
  };
  if (!same(region.arguments, arguments)) return Fail("a region's arguments have other types");
  const Op* end = region.terminator();
  if (end == nullptr || !same(end->operands, results)) {
    return Fail("a region returns values of other types");
  }
  return true;
}

bool Check::ScalarRegion(const Region& region, const std::vector<ElementType>& arguments,
                         const std::vector<ElementType>& results) {
  auto scalars = [](const std::vector<Value*>& values, const std::vector<ElementType>& elements) {
    return std::equal(
        values.begin(), values.end(), elements.begin(), elements.end(),
        [](const Value* v, ElementType e) { return IsScalar(v->type) && v->type.element == e; });
  };
  const Op* end = region.terminator();
  if (scalars(region.arguments, arguments) && end != nullptr && scalars(end->operands, results))
    return true;
  auto names = [](const std::vector<ElementType>& elements) {
    return absl::StrJoin(elements, ", ", [](std::string* out, ElementType e) {
      absl::StrAppend(out, std::string(ElementTypeName(e)));
    });
  };
  return Fail(absl::StrCat("a region does not map scalars (", names(arguments), ") to (",
                           names(results), ")"));
}

bool Check::Reducer(const Region& region, const std::vector<ElementType>& elements) {
  std::vector<ElementType> arguments = elements;
  arguments.insert(arguments.end(), elements.begin(), elements.end());
  return ScalarRegion(region, arguments, elements);
}

}  // namespace shardway::ir::verify
