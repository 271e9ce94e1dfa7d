// scatter. Windows that span their dimension pass through, and so do batching dimensions. The
// dimensions of the indices are a reduction: every part scatters its updates into the input (one
// part) or into the reduction's identity (the others), and the parts are combined. A dimension
// addressed by the indices with windows of one element passes through: every part drops the updates
// that fall outside of its tile.
#include <algorithm>

#include "shardway/spmd/gather_dims.h"
#include "shardway/spmd/index_shift.h"
#include "shardway/spmd/reduction_of.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

using collective::Reduction;
constexpr auto kReplicated = Factor::Kind::kReplicated;

bool In(const std::vector<int64_t>& list, int64_t v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

bool AddressesEverything(const GatherDims& dims, const ir::Type& indices) {
  return dims.index_vector_dim >= indices.rank() || indices.dims[dims.index_vector_dim] > 0;
}

}  // namespace

OpRule ScatterRule(const ir::Op& op) {
  OpRule rule;
  const size_t n = op.results.size();
  const GatherDims dims = GatherDims::OfScatter(op);
  const ir::Type& whole = op.operand(0)->type;
  const ir::Type& indices = op.operand(n)->type;
  const ir::Type& parts = op.operand(n + 1)->type;
  rule.combine = n == 1 ? ReductionOf(*op.regions[0]) : Reduction::kNone;
  const bool combines = rule.combine != Reduction::kNone && rule.combine != Reduction::kXor &&
                        AddressesEverything(dims, indices);
  TensorFactors into(whole.rank());
  TensorFactors index(indices.rank());
  TensorFactors update(parts.rank());
  for (size_t i = 0; i < dims.scatter_dims.size(); ++i) {
    const int64_t d = dims.scatter_indices[i];
    const bool batch = In(dims.batch_indices, d);
    const auto kind = batch      ? Factor::Kind::kPassThrough
                      : combines ? Factor::Kind::kReduction
                                 : kReplicated;
    index[d] = {rule.AddFactor(indices.dims[d], kind)};
    update[dims.scatter_dims[i]] = index[d];
  }
  if (dims.index_vector_dim < indices.rank()) {
    index[dims.index_vector_dim] = {
        rule.AddFactor(indices.dims[dims.index_vector_dim], kReplicated)};
  }
  for (size_t i = 0; i < dims.batch_whole.size(); ++i)
    into[dims.batch_whole[i]] = index[dims.batch_indices[i]];
  for (size_t i = 0; i < dims.window_whole.size(); ++i) {
    const int64_t d = dims.window_whole[i];
    const int64_t w = dims.window_dims[i];
    if (parts.dims[w] == whole.dims[d]) {
      into[d] = update[w] = {rule.AddFactor(whole.dims[d])};
    } else {
      into[d] = {rule.AddFactor(whole.dims[d], kReplicated)};
      update[w] = {rule.AddFactor(parts.dims[w], kReplicated)};
    }
  }
  for (int64_t d : dims.single_dims) {
    into[d] = {In(dims.index_map, d) ? rule.AddFactor(whole.dims[d])
                                     : rule.AddFactor(whole.dims[d], kReplicated)};
  }
  rule.operands.assign(n, into);
  rule.operands.push_back(std::move(index));
  rule.operands.resize(2 * n + 1, update);
  rule.results.assign(n, into);
  return rule;
}

LocalResults EmitScatter(LocalOp& local) {
  Emitter& e = local.e;
  ir::Builder& b = e.b();
  const size_t n = local.op.results.size();
  const GatherDims dims = GatherDims::OfScatter(local.op);
  ir::Value*& indices = local.operands[n];
  if (ir::Value* offsets =
          TileOffsets(e, indices, dims.index_vector_dim, dims.index_map, dims.single_dims,
                      local.operand_shardings[0], local.operands[0]->type)) {
    indices = b.Binary(ir::OpKind::kSubtract, indices, offsets);
  }
  AxisList split;
  for (int64_t d : dims.scatter_indices) {
    const int f = local.rule.operands[n][d][0];
    if (local.axes[f].empty()) continue;
    // Padding among the updates goes nowhere. (-1 is out of bounds for unsigned indices too.)
    ir::Value* nowhere = b.SplatInt(ir::Type::Scalar(indices->type.element), -1);
    indices = MaskPadding(e, indices, local.op.operand(n)->type, local.operand_shardings[n],
                          static_cast<int>(d), nowhere);
    if (local.rule.factors[f].kind == Factor::Kind::kReduction) {
      split.insert(split.end(), local.axes[f].begin(), local.axes[f].end());
    }
  }
  const Reduction combine = local.rule.combine;
  if (!split.empty() && (combine == Reduction::kSum || combine == Reduction::kProduct)) {
    // The input counts once.
    const ir::Type& type = local.operands[0]->type;
    ir::Value* first =
        b.Compare("EQ", e.Coordinate(split), b.SplatInt(ir::Type::Scalar(ElementType::kI32), 0));
    local.operands[0] = b.Select(first, local.operands[0],
                                 b.SplatInt(type, combine == Reduction::kProduct ? 1 : 0));
  }
  return EmitAsIs(local);
}

}  // namespace shardway::spmd
