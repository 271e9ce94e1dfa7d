// gather. Windows that span their dimension pass through, and so do the dimensions of the indices
// (the lookups themselves) and batching dimensions. A dimension addressed by the indices with
// windows of one element (the rows of an embedding) may be split too: every part looks up what it
// holds, gives zeros for the rest, and the parts are summed.
#include <algorithm>

#include "shardway/base/status_macros.h"
#include "shardway/spmd/gather_dims.h"
#include "shardway/spmd/index_shift.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

constexpr auto kReplicated = Factor::Kind::kReplicated;
constexpr auto kReduction = Factor::Kind::kReduction;

bool In(const std::vector<int64_t>& list, int64_t v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

// Indices, clamped to the whole as StableHLO clamps them, then counted from this device's tile.
ir::Value* LocalIndices(LocalOp& local, const GatherDims& dims, ir::Value* offsets) {
  ir::Builder& b = local.e.b();
  const ir::Type& indices = local.operands[1]->type;
  const ir::Type& whole = local.op.operand(0)->type;
  const auto& sizes = local.op.IntList("slice_sizes");
  std::vector<int64_t> last;
  for (int64_t d : dims.index_map) last.push_back(std::max<int64_t>(0, whole.dims[d] - sizes[d]));
  ir::Value* limit = b.IntVector(indices.element, last);
  ir::Value* max;
  if (dims.index_vector_dim >= indices.rank()) {
    max = b.BroadcastInDim(b.Reshape(limit, {}), indices.dims, {});
  } else {
    const int64_t to[] = {dims.index_vector_dim};
    max = b.BroadcastInDim(limit, indices.dims, to);
  }
  ir::Value* clamped = b.Clamp(b.SplatInt(indices, 0), local.operands[1], max);
  return b.Binary(ir::OpKind::kSubtract, clamped, offsets);
}

// Which lookups fall into this device's tile: i1 over the scatter dimensions of the result.
ir::Value* Hits(LocalOp& local, const GatherDims& dims, ir::Value* local_indices) {
  ir::Builder& b = local.e.b();
  const ir::Type& type = local_indices->type;
  const ir::Type& tile = local.operands[0]->type;
  const Sharding& sharding = local.operand_shardings[0];
  std::vector<int64_t> size;
  for (int64_t d : dims.index_map) {
    const bool split = In(dims.single_dims, d) && !sharding.dims[d].empty();
    size.push_back(split ? tile.dims[d] : local.op.operand(0)->type.dims[d] + 1);
  }
  ir::Value* limit = b.IntVector(type.element, size);
  if (dims.index_vector_dim >= type.rank()) {
    limit = b.BroadcastInDim(b.Reshape(limit, {}), type.dims, {});
  } else {
    const int64_t to[] = {dims.index_vector_dim};
    limit = b.BroadcastInDim(limit, type.dims, to);
  }
  ir::Value* inside =
      b.Binary(ir::OpKind::kAnd, b.Compare("GE", local_indices, b.SplatInt(type, 0)),
               b.Compare("LT", local_indices, limit));
  if (dims.index_vector_dim >= type.rank()) return inside;
  // All components of an index: their conjunction along the index vector.
  ir::Dims kept;
  for (int d = 0; d < type.rank(); ++d) {
    if (d != dims.index_vector_dim) kept.push_back(type.dims[d]);
  }
  const ir::Type result = ir::Type::Tensor(ElementType::kI1, kept);
  ir::Value* operands[] = {inside, b.SplatInt(ir::Type::Scalar(ElementType::kI1), 1)};
  ir::AttrDict attributes;
  ir::Set(attributes, "dimensions", std::vector<int64_t>{dims.index_vector_dim});
  ir::Op* op = b.Create(ir::OpKind::kReduce, operands, {&result, 1}, std::move(attributes));
  BuildReducer(local.e.module(), local.e.module()->AddRegion(op), collective::Reduction::kAnd,
               ElementType::kI1);
  return op->result();
}

}  // namespace

OpRule GatherRule(const ir::Op& op) {
  OpRule rule;
  const GatherDims dims = GatherDims::OfGather(op);
  const auto& sizes = op.IntList("slice_sizes");
  const ir::Type& whole = op.operand(0)->type;
  const ir::Type& indices = op.operand(1)->type;
  const ir::Type& parts = op.result()->type;
  rule.combine =
      parts.element == ElementType::kI1 ? collective::Reduction::kOr : collective::Reduction::kSum;
  TensorFactors from(whole.rank());
  TensorFactors index(indices.rank());
  TensorFactors result(parts.rank());
  for (size_t i = 0; i < dims.scatter_dims.size(); ++i) {
    const int f = rule.AddFactor(indices.dims[dims.scatter_indices[i]]);
    index[dims.scatter_indices[i]] = {f};
    result[dims.scatter_dims[i]] = {f};
  }
  if (dims.index_vector_dim < indices.rank()) {
    index[dims.index_vector_dim] = {
        rule.AddFactor(indices.dims[dims.index_vector_dim], kReplicated)};
  }
  for (size_t i = 0; i < dims.batch_whole.size(); ++i)
    from[dims.batch_whole[i]] = index[dims.batch_indices[i]];
  for (size_t i = 0; i < dims.window_whole.size(); ++i) {
    const int64_t d = dims.window_whole[i];
    if (sizes[d] == whole.dims[d]) {
      from[d] = result[dims.window_dims[i]] = {rule.AddFactor(whole.dims[d])};
    } else {
      from[d] = {rule.AddFactor(whole.dims[d], kReplicated)};
      result[dims.window_dims[i]] = {rule.AddFactor(sizes[d], kReplicated)};
    }
  }
  for (int64_t d : dims.single_dims) {
    const bool rows = sizes[d] == 1 && In(dims.index_map, d);
    from[d] = {rule.AddFactor(whole.dims[d], rows ? kReduction : kReplicated)};
  }
  rule.operands = {std::move(from), std::move(index)};
  rule.results = {std::move(result)};
  return rule;
}

LocalResults EmitGather(LocalOp& local) {
  const GatherDims dims = GatherDims::OfGather(local.op);
  ir::AttrDict attributes = local.op.attributes;
  std::vector<int64_t> sizes = local.op.IntList("slice_sizes");
  const ir::Type& tile = local.operands[0]->type;
  for (int64_t d : dims.window_whole) {
    if (!local.operand_shardings[0].dims[d].empty()) sizes[d] = tile.dims[d];
  }
  ir::Set(attributes, "slice_sizes", std::move(sizes));
  ir::Value* offsets =
      TileOffsets(local.e, local.operands[1], dims.index_vector_dim, dims.index_map,
                  dims.single_dims, local.operand_shardings[0], tile);
  if (offsets == nullptr) return EmitWith(local, std::move(attributes));
  ir::Builder& b = local.e.b();
  local.operands[1] = LocalIndices(local, dims, offsets);
  ir::Value* hits = Hits(local, dims, local.operands[1]);
  SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results,
                            EmitWith(local, std::move(attributes)));
  const ir::Type& type = results[0]->type;
  ir::Value* mask = b.BroadcastInDim(hits, type.dims, dims.scatter_dims);
  results[0] = b.Select(mask, results[0], b.SplatInt(type, 0));
  return results;
}

}  // namespace shardway::spmd
