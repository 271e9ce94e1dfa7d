// gather. Windows that span their dimension pass through, and so do the dimensions of the indices
// (the lookups themselves), batching dimensions, and dimensions that an index counts along
// (parallel_indices.h). Any other dimension addressed by the indices may be split too: every part
// gives what it holds of the windows, zeros for the rest, and the parts are summed.
//
//   rows, windows of one element     a part looks up what it can, and masks the rest
//   longer windows                   they may reach over the end of a tile, which gets margins
#include <algorithm>
#include <limits>

#include "shardway/base/status_macros.h"
#include "shardway/spmd/dynamic_window.h"
#include "shardway/spmd/gather_dims.h"
#include "shardway/spmd/index_shift.h"
#include "shardway/spmd/parallel_indices.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

constexpr auto kReplicated = Factor::Kind::kReplicated;
constexpr auto kReduction = Factor::Kind::kReduction;

bool In(const std::vector<int64_t>& list, int64_t v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

// Indices clamped as StableHLO clamps them for windows of these sizes in `whole`.
ir::Value* ClampedIndices(ir::Builder& b, const GatherDims& dims, ir::Value* indices,
                          const ir::Type& whole, const std::vector<int64_t>& sizes) {
  if (ElementBits(indices->type.element) < 32) indices = WideIndices(b, indices);
  std::vector<int64_t> last;
  for (int64_t d : dims.index_map) last.push_back(std::max<int64_t>(0, whole.dims[d] - sizes[d]));
  ir::Value* clamped =
      b.Clamp(b.SplatInt(indices->type, 0), indices, PerComponent(b, dims, indices->type, last));
  return WideIndices(b, clamped);
}

// Which lookups fall into this device's tile along `rows`: i1 over the scatter dimensions of the
// result.
ir::Value* Hits(LocalOp& local, const GatherDims& dims, const std::vector<int64_t>& rows,
                ir::Value* local_indices) {
  ir::Builder& b = local.e.b();
  const ir::Type& type = local_indices->type;
  const ir::Type& tile = local.operands[0]->type;
  std::vector<int64_t> least, size;
  for (int64_t d : dims.index_map) {
    const bool row = In(rows, d);
    least.push_back(row ? 0 : std::numeric_limits<int32_t>::min());
    size.push_back(row ? tile.dims[d] : std::numeric_limits<int32_t>::max());
  }
  ir::Value* inside =
      b.Binary(ir::OpKind::kAnd, b.Compare("GE", local_indices, PerComponent(b, dims, type, least)),
               b.Compare("LT", local_indices, PerComponent(b, dims, type, size)));
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
  for (size_t i = 0; i < dims.window_whole.size(); ++i) {
    const int64_t d = dims.window_whole[i];
    if (sizes[d] == whole.dims[d]) {
      from[d] = result[dims.window_dims[i]] = {rule.AddFactor(whole.dims[d])};
    } else {
      const bool addressed = In(dims.index_map, d) && sizes[d] > 0;
      from[d] = {rule.AddFactor(whole.dims[d], addressed ? kReduction : kReplicated)};
      result[dims.window_dims[i]] = {rule.AddFactor(sizes[d], kReplicated)};
    }
  }
  for (int64_t d : dims.single_dims) {
    const bool rows = sizes[d] == 1 && In(dims.index_map, d);
    from[d] = {rule.AddFactor(whole.dims[d], rows ? kReduction : kReplicated)};
  }
  for (size_t i = 0; i < dims.batch_whole.size(); ++i)
    from[dims.batch_whole[i]] = index[dims.batch_indices[i]];
  for (const auto& [d, along] : ParallelDims(dims, whole, op.operand(1))) from[d] = index[along];
  rule.operands = {std::move(from), std::move(index)};
  rule.results = {std::move(result)};
  return rule;
}

LocalResults EmitGather(LocalOp& local) {
  ir::Builder& b = local.e.b();
  const GatherDims dims = GatherDims::OfGather(local.op);
  const Sharding& sharding = local.operand_shardings[0];
  const ir::Type tile = local.operands[0]->type;
  const std::vector<int64_t>& sizes_of_op = local.op.IntList("slice_sizes");
  std::vector<int64_t> sizes = sizes_of_op;
  std::vector<int64_t> margin(tile.rank());
  std::vector<int64_t> rows;  // split dimensions of which a part may miss a lookup
  bool shifted = false;
  for (int64_t d = 0; d < tile.rank(); ++d) {
    const Factor& factor = local.rule.factors[local.rule.operands[0][d][0]];
    const bool full = factor.kind == Factor::Kind::kPassThrough && In(dims.window_whole, d);
    if (full) {
      if (!sharding.dims[d].empty()) sizes[d] = tile.dims[d];
    } else if (Addressed(dims, sharding, d)) {
      shifted = true;
      if (factor.kind != kReduction) continue;  // parallel
      if (sizes[d] == 1) rows.push_back(d);
      if (sizes[d] > 1) margin[d] = sizes[d];
    }
  }
  if (shifted) {
    ir::Value* clamped =
        ClampedIndices(b, dims, local.operands[1], local.op.operand(0)->type, sizes_of_op);
    local.operands[1] = ToLocal(local.e, dims, clamped, sharding, tile, margin);
  }
  if (std::any_of(margin.begin(), margin.end(), [](int64_t m) { return m > 0; })) {
    ir::Value* fill = NeutralOfSum(b, ir::Type::Scalar(tile.element));
    local.operands[0] = b.Pad(local.operands[0], fill, margin, margin);
  }
  ir::Value* hits = rows.empty() ? nullptr : Hits(local, dims, rows, local.operands[1]);
  // XLA makes a dynamic slice of it: see IsOneIndex.
  if (IsOneIndex(dims, local.operands[1]->type) && !dims.index_map.empty()) {
    local.operands[1] = ClampedIndices(b, dims, local.operands[1], local.operands[0]->type, sizes);
  }
  ir::AttrDict attributes = local.op.attributes;
  ir::Set(attributes, "slice_sizes", std::move(sizes));
  SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results,
                            EmitWith(local, std::move(attributes)));
  if (hits != nullptr) {
    const ir::Type& type = results[0]->type;
    ir::Value* mask = b.BroadcastInDim(hits, type.dims, dims.scatter_dims);
    results[0] = b.Select(mask, results[0], NeutralOfSum(b, type));
  }
  return results;
}

}  // namespace shardway::spmd
