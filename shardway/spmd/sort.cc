// sort: all but the sorted dimension pass through. Of a sort of which only the beginning is used
// (partial_sort.h) the sorted dimension may be split too: every part sorts what it has, the first k
// of each are gathered and sorted again.
#include <algorithm>

#include "shardway/base/status_macros.h"
#include "shardway/spmd/pack.h"
#include "shardway/spmd/partial_sort.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

using ir::OpKind;

int64_t SortedDim(const ir::Op& op) {
  const int64_t dim = op.Int("dimension", -1);
  return dim < 0 ? dim + op.operand(0)->type.rank() : dim;
}

// `operands` sorted by the user's comparator, then cut to the first k. What `padding` (i1, may be
// null) marks comes last, whatever the comparator makes of it.
LocalResults SortFirst(LocalOp& local, std::vector<ir::Value*> operands, ir::Value* padding,
                       int64_t k) {
  ir::Builder& b = local.e.b();
  const size_t n = operands.size();
  const int64_t dim = SortedDim(local.op);
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
  SHARDWAY_RETURN_IF_ERROR(CloneBody(*local.op.regions[0], body, local.e.module()));
  if (padding != nullptr) {
    const ir::Type i1 = ir::Type::Scalar(ElementType::kI1);
    ir::Value* left = local.e.module()->AddArgument(body, i1);
    ir::Value* right = local.e.module()->AddArgument(body, i1);
    ir::Value* before = body->ops.back()->operand(0);
    body->ops.pop_back();
    ir::Builder inner(local.e.module(), body);
    inner.set_location(b.location());
    before = inner.Select(inner.Binary(OpKind::kXor, left, right), right, before);
    inner.Return({&before, 1});
  }
  std::vector<ir::Value*> results(op->results.begin(), op->results.begin() + n);
  for (ir::Value*& v : results) {
    if (v->type.dims[dim] <= k) continue;
    std::vector<int64_t> limits(v->type.dims.begin(), v->type.dims.end());
    limits[dim] = k;
    v = b.Slice(v, std::vector<int64_t>(limits.size()), limits);
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
    rule.factors[operand[dim][0]].kind =
        first_only ? Factor::Kind::kReduction : Factor::Kind::kReplicated;
    if (first_only) {
      result[dim] = {rule.AddFactor(op.result()->type.dims[dim], Factor::Kind::kReplicated)};
    }
  }
  rule.operands.assign(op.operands.size(), operand);
  rule.results.assign(op.results.size(), result);
  return rule;
}

LocalResults EmitSort(LocalOp& local) {
  if (!local.op.Bool(kFirstOnly)) return EmitAsIs(local);
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
