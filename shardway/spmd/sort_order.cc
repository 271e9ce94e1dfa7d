#include "shardway/spmd/sort_order.h"

#include <numeric>

#include "shardway/base/status_macros.h"
#include "shardway/spmd/deferral.h"
#include "shardway/spmd/partial_sort.h"

namespace shardway::spmd {
namespace {

using ir::OpKind;

// Arguments (left, right) for each operand, and what they give: whether left comes before right.
// The caller returns it.
absl::StatusOr<ir::Value*> BuildOrder(LocalOp& local, absl::Span<ir::Value* const> operands,
                                      bool by_place, ir::Region* body) {
  ir::Module* module = local.e.module();
  std::vector<ir::Value*> forward, backward;
  for (const ir::Value* v : operands) {
    const ir::Type scalar = ir::Type::Scalar(v->type.element);
    ir::Value* left = module->AddArgument(body, scalar);
    ir::Value* right = module->AddArgument(body, scalar);
    forward.insert(forward.end(), {left, right});
    backward.insert(backward.end(), {right, left});
  }
  const ir::Region& user = *local.op.regions[0];
  auto inlined = [&](std::vector<ir::Value*>& arguments) -> absl::StatusOr<ir::Value*> {
    arguments.resize(user.arguments.size());
    SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> returned,
                              InlineBody(user, arguments, body, module));
    return returned[0];
  };
  ir::Builder b(module, body);
  b.set_location(local.e.b().location());
  ir::Value* earlier =
      by_place ? b.Compare("LT", forward[forward.size() - 2], forward.back()) : nullptr;
  SHARDWAY_ASSIGN_OR_RETURN(ir::Value * before, inlined(forward));
  if (!by_place) return before;
  SHARDWAY_ASSIGN_OR_RETURN(ir::Value * after, inlined(backward));
  // before, or not after and earlier
  ir::Value* tie = b.Binary(OpKind::kAnd, b.Unary(OpKind::kNot, after), earlier);
  return b.Binary(OpKind::kOr, before, tie);
}

// Whether `v` is `x`, or x with zeros and NaNs replaced: select(x == 0, c, x), select(x != x, c, x)
// and one in the other.
bool IsPlain(const ir::Value* v, const ir::Value* x) {
  while (v != x) {
    const ir::Op* select = v->def;
    if (select == nullptr || select->kind != OpKind::kSelect) return false;
    const ir::Op* test = select->operand(0)->def;
    const ir::Op* constant = select->operand(1)->def;
    if (test == nullptr || test->kind != OpKind::kCompare || test->operand(0) != x) return false;
    if (constant == nullptr || constant->kind != OpKind::kConstant) return false;
    const std::string_view direction = test->String("comparison_direction");
    const bool is_nan = direction == "NE" && test->operand(1) == x;
    const ir::Op* with = test->operand(1)->def;
    const bool is_zero = direction == "EQ" && with != nullptr && with->kind == OpKind::kConstant &&
                         with->Find("value")->get_if<ir::Constant>() != nullptr &&
                         IsZero(test->operand(1));
    if (!is_nan && !is_zero) return false;
    v = select->operand(2);
  }
  return true;
}

}  // namespace

int64_t SortedDim(const ir::Op& sort) {
  const int64_t dim = sort.Int("dimension", -1);
  return dim < 0 ? dim + sort.operand(0)->type.rank() : dim;
}

bool TiesAreAlike(const ir::Op& sort) {
  const ir::Region& body = *sort.regions[0];
  if (sort.operands.size() != 1 || body.arguments.size() != 2) return false;
  const ir::Op* compare = body.terminator()->operand(0)->def;
  if (compare == nullptr || compare->kind != OpKind::kCompare) return false;
  const std::string_view direction = compare->String("comparison_direction");
  if (direction != "LT" && direction != "GT") return false;
  const ElementType element = sort.operand(0)->type.element;
  const bool total = compare->String("compare_type") == "TOTALORDER";
  if (!total && !IsInteger(element) && element != ElementType::kI1) return false;
  auto of = [&](const ir::Value* left, const ir::Value* right) {
    return IsPlain(left, body.arguments[0]) && IsPlain(right, body.arguments[1]);
  };
  return of(compare->operand(0), compare->operand(1)) ||
         of(compare->operand(1), compare->operand(0));
}

LocalResults SortInOrder(LocalOp& local, std::vector<ir::Value*> operands, bool by_place,
                         ir::Value* padding) {
  ir::Builder& b = local.e.b();
  const size_t n = operands.size();
  if (padding != nullptr) operands.push_back(padding);
  std::vector<ir::Type> types;
  types.reserve(operands.size());
  for (const ir::Value* v : operands) types.push_back(v->type);
  ir::AttrDict attributes = local.op.attributes;
  ir::Erase(attributes, kFirstOnly);
  ir::Erase(attributes, "mhlo.sharding");
  ir::Erase(attributes, "sdy.sharding");
  ir::Op* op = b.Create(OpKind::kSort, operands, types, std::move(attributes));
  ir::Region* body = local.e.module()->AddRegion(op);
  SHARDWAY_ASSIGN_OR_RETURN(
      ir::Value * before,
      BuildOrder(local, absl::MakeConstSpan(operands).first(n), by_place, body));
  ir::Builder inner(local.e.module(), body);
  inner.set_location(b.location());
  if (padding != nullptr) {
    const ir::Type i1 = ir::Type::Scalar(ElementType::kI1);
    ir::Value* left = local.e.module()->AddArgument(body, i1);
    ir::Value* right = local.e.module()->AddArgument(body, i1);
    before = inner.Select(inner.Binary(OpKind::kXor, left, right), right, before);
  }
  inner.Return({&before, 1});
  return std::vector<ir::Value*>(op->results.begin(), op->results.begin() + n);
}

absl::StatusOr<ir::Value*> ComesBefore(LocalOp& local, const std::vector<ir::Value*>& left,
                                       const std::vector<ir::Value*>& right, bool by_place) {
  std::vector<ir::Value*> operands;
  for (size_t i = 0; i < left.size(); ++i) {
    operands.push_back(left[i]);
    operands.push_back(right[i]);
  }
  std::vector<int64_t> dimensions(left[0]->type.rank());
  std::iota(dimensions.begin(), dimensions.end(), 0);
  ir::AttrDict attributes;
  ir::Set(attributes, "dimensions", std::move(dimensions));
  const ir::Type type = ir::Type::Tensor(ElementType::kI1, left[0]->type.dims);
  ir::Op* map = local.e.b().Create(OpKind::kMap, operands, {&type, 1}, std::move(attributes));
  ir::Region* body = local.e.module()->AddRegion(map);
  SHARDWAY_ASSIGN_OR_RETURN(ir::Value * before, BuildOrder(local, left, by_place, body));
  ir::Builder inner(local.e.module(), body);
  inner.set_location(local.e.b().location());
  inner.Return({&before, 1});
  return map->result();
}

}  // namespace shardway::spmd
