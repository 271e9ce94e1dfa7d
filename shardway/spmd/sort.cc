// sort: all but the sorted dimension pass through. Along that, parts exchange shards where that is
// less than to gather them, or to sort along other dimensions (sort_exchange.h). Of a sort of which
// only the beginning is used (partial_sort.h) the sorted dimension may be split too: every part
// sorts what it has, the first k of each are gathered and sorted again.
#include <algorithm>

#include "shardway/base/status_macros.h"
#include "shardway/spmd/pack.h"
#include "shardway/spmd/partial_sort.h"
#include "shardway/spmd/room.h"
#include "shardway/spmd/sort_exchange.h"
#include "shardway/spmd/sort_order.h"

namespace shardway::spmd {
namespace {

using ir::OpKind;

// The first k of `operands`, sorted.
LocalResults SortFirst(LocalOp& local, std::vector<ir::Value*> operands, ir::Value* padding,
                       int64_t k) {
  const int64_t dim = SortedDim(local.op);
  SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results,
                            SortInOrder(local, std::move(operands), /*by_place=*/false, padding));
  for (ir::Value*& v : results) {
    if (v->type.dims[dim] <= k) continue;
    std::vector<int64_t> limits(v->type.dims.begin(), v->type.dims.end());
    limits[dim] = k;
    v = local.e.b().Slice(v, std::vector<int64_t>(limits.size()), limits);
  }
  return results;
}

// i1 of shape `dims`: the places along `dim` that are beyond the end of the whole, for parts of
// `tile` elements of which the first `kept` are here. `begin` is the i32 place of the first part.
ir::Value* Beyond(ir::Builder& b, const ir::Dims& dims, int64_t dim, int64_t tile, int64_t kept,
                  ir::Value* begin, int64_t size) {
  const ir::Type places = ir::Type::Tensor(ElementType::kI32, dims);
  ir::Value* at = b.Iota(places, dim);
  if (kept != tile && dims[dim] > kept) {  // places in several parts
    ir::Value* per_part = b.SplatInt(places, kept);
    at = b.Binary(OpKind::kAdd, b.Binary(OpKind::kRemainder, at, per_part),
                  b.Binary(OpKind::kMultiply, b.Binary(OpKind::kDivide, at, per_part),
                           b.SplatInt(places, tile)));
  }
  if (begin != nullptr) at = b.Binary(OpKind::kAdd, at, b.BroadcastInDim(begin, dims, {}));
  return b.Compare("GE", at, b.SplatInt(places, size));
}

}  // namespace

OpRule SortRule(const ir::Op& op) {
  OpRule rule;
  const ir::Type& shape = op.operand(0)->type;
  TensorFactors operand = rule.NewTensor(shape);
  TensorFactors result = operand;
  const int64_t dim = SortedDim(op);
  if (dim >= 0 && dim < shape.rank()) {
    const bool first_only = op.Bool(kFirstOnly);
    const int sorted = operand[dim][0];
    if (!first_only) {
      rule.factors[sorted].window = true;
      rule.blocked.push_back(sorted);  // whether it stays split is open
    } else {
      rule.factors[sorted].kind = Factor::Kind::kReduction;
      result[dim] = {rule.AddFactor(op.result()->type.dims[dim], Factor::Kind::kReplicated)};
    }
  }
  rule.operands.assign(op.operands.size(), operand);
  rule.results.assign(op.results.size(), result);
  return rule;
}

LocalResults EmitSort(LocalOp& local) {
  if (!local.op.Bool(kFirstOnly)) {
    const bool exchanges = local.rule.Exchanges(local.axes, local.mesh());
    return exchanges ? SortByExchange(local) : EmitAsIs(local);
  }
  ir::Builder& b = local.e.b();
  const int64_t dim = SortedDim(local.op);
  const int64_t size = local.op.operand(0)->type.dims[dim];
  const int64_t k = local.op.result()->type.dims[dim];
  const int64_t tile = local.operands[0]->type.dims[dim];
  const AxisList& axes = local.operand_shardings[0].dims[dim];
  if (axes.empty()) return SortFirst(local, local.operands, nullptr, k);
  const bool padded = tile * local.mesh().SizeOf(axes) != size;
  const int64_t kept = std::min(k, tile);
  std::vector<ir::Value*> parts = local.operands;
  if (kept < tile) {
    ir::Value* padding = nullptr;
    if (padded) {
      const ir::Type i32 = ir::Type::Scalar(ElementType::kI32);
      ir::Value* begin =
          b.Binary(OpKind::kMultiply, local.e.Coordinate(axes), b.SplatInt(i32, tile));
      padding = Beyond(b, parts[0]->type.dims, dim, tile, tile, begin, size);
    }
    SHARDWAY_ASSIGN_OR_RETURN(parts, SortFirst(local, std::move(parts), padding, kept));
  }
  if (ir::Value* packed = parts.size() > 1 ? Pack(b, parts) : nullptr) {
    std::vector<ElementType> elements;
    elements.reserve(parts.size());
    for (const ir::Value* v : parts) elements.push_back(v->type.element);
    parts = Unpack(b, local.e.AllGather(packed, dim + 1, axes), 0, elements);
  } else {
    for (ir::Value*& v : parts) v = local.e.AllGather(v, dim, axes);
  }
  ir::Value* padding =
      padded ? Beyond(b, parts[0]->type.dims, dim, tile, kept, nullptr, size) : nullptr;
  return SortFirst(local, std::move(parts), padding, k);
}

}  // namespace shardway::spmd
