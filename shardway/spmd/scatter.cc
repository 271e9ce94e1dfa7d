// scatter. Windows that span their dimension pass through, and so do batching dimensions and
// dimensions that an index counts along (parallel_indices.h). The other dimensions of the indices
// are a reduction: every part scatters its updates into the input (one part) or into the
// reduction's identity (the others), and the parts are combined; where the body is no reduction
// that has one, every part sees all updates, in their order. A dimension addressed by the indices
// passes through: every part drops the updates that fall outside of its tile. Windows of more than
// one element may reach over the end of a tile: it gets margins, which are cut off again.
#include <algorithm>
#include <limits>

#include "shardway/base/status_macros.h"
#include "shardway/spmd/gather_dims.h"
#include "shardway/spmd/index_shift.h"
#include "shardway/spmd/parallel_indices.h"
#include "shardway/spmd/reduction_of.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

using collective::Reduction;
using Kind = Factor::Kind;

bool In(const std::vector<int64_t>& list, int64_t v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

bool AddressesEverything(const GatherDims& dims, const ir::Type& indices) {
  return dims.index_vector_dim >= indices.rank() || indices.dims[dims.index_vector_dim] > 0;
}

// The length of an update's window along each dimension of the whole.
std::vector<int64_t> Windows(const ir::Op& op, const GatherDims& dims) {
  const ir::Type& parts = op.operand(op.results.size() + 1)->type;
  std::vector<int64_t> sizes(op.operand(0)->type.rank(), 1);
  for (size_t i = 0; i < dims.window_whole.size(); ++i)
    sizes[dims.window_whole[i]] = parts.dims[dims.window_dims[i]];
  return sizes;
}

// An index without components says where windows go by saying nothing. XLA's CPU backend takes only
// one update then where a tile has a single element, so one dimension is addressed at 0.
ir::AttrDict AddressOneAtZero(LocalOp& local, const GatherDims& dims) {
  ir::AttrDict attributes = local.op.attributes;
  ir::Value*& indices = local.operands[local.op.results.size()];
  for (int64_t d = 0; d < local.op.operand(0)->type.rank(); ++d) {
    if (In(dims.batch_whole, d)) continue;
    ir::Type type = ir::Type::Tensor(ElementType::kI32, indices->type.dims);
    type.dims[dims.index_vector_dim] = 1;
    indices = local.e.b().SplatInt(type, 0);
    ir::Set(attributes, "scatter_dims_to_operand_dims", std::vector<int64_t>{d});
    break;
  }
  return attributes;
}

}  // namespace

OpRule ScatterRule(const ir::Op& op) {
  OpRule rule;
  const size_t n = op.results.size();
  const GatherDims dims = GatherDims::OfScatter(op);
  const ir::Type& whole = op.operand(0)->type;
  const ir::Type& indices = op.operand(n)->type;
  const ir::Type& parts = op.operand(n + 1)->type;
  const auto parallel = ParallelDims(dims, whole, op.operand(n));
  rule.combine = n == 1 ? ReductionOf(*op.regions[0]) : Reduction::kNone;
  const bool combines = rule.combine != Reduction::kNone && rule.combine != Reduction::kXor &&
                        AddressesEverything(dims, indices);
  TensorFactors into(whole.rank());
  TensorFactors index(indices.rank());
  TensorFactors update(parts.rank());
  for (size_t i = 0; i < dims.scatter_dims.size(); ++i) {
    const int64_t d = dims.scatter_indices[i];
    const bool passes =
        In(dims.batch_indices, d) ||
        std::any_of(parallel.begin(), parallel.end(), [&](const auto& p) { return p.second == d; });
    const Kind kind = passes ? Kind::kPassThrough : combines ? Kind::kReduction : Kind::kReplicated;
    index[d] = {rule.AddFactor(indices.dims[d], kind)};
    update[dims.scatter_dims[i]] = index[d];
  }
  if (dims.index_vector_dim < indices.rank()) {
    index[dims.index_vector_dim] = {
        rule.AddFactor(indices.dims[dims.index_vector_dim], Kind::kReplicated)};
  }
  // Along a dimension that is addressed every part drops what is not its own; along one that is
  // not, windows begin at 0.
  auto of_whole = [&](int64_t d) {
    return rule.AddFactor(whole.dims[d],
                          In(dims.index_map, d) ? Kind::kPassThrough : Kind::kReplicated);
  };
  for (size_t i = 0; i < dims.window_whole.size(); ++i) {
    const int64_t d = dims.window_whole[i];
    const int64_t w = dims.window_dims[i];
    if (parts.dims[w] == whole.dims[d]) {
      into[d] = update[w] = {rule.AddFactor(whole.dims[d])};
    } else {
      into[d] = {of_whole(d)};
      update[w] = {rule.AddFactor(parts.dims[w], Kind::kReplicated)};
    }
  }
  for (int64_t d : dims.single_dims) into[d] = {of_whole(d)};
  for (size_t i = 0; i < dims.batch_whole.size(); ++i)
    into[dims.batch_whole[i]] = index[dims.batch_indices[i]];
  for (const auto& [d, along] : parallel) into[d] = index[along];
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
  const ir::Type& whole = local.op.operand(0)->type;
  const ir::Type tile = local.operands[0]->type;
  const Sharding& sharding = local.operand_shardings[0];
  const std::vector<int64_t> windows = Windows(local.op, dims);
  ir::Value*& indices = local.operands[n];

  std::vector<int64_t> margin(tile.rank());
  std::vector<int64_t> limit;  // of a component, where a tile cannot tell what is out of bounds
  Sharding addressed = sharding;
  bool shifted = false;
  bool longer = false;
  for (int64_t d : dims.index_map) {
    limit.push_back(std::numeric_limits<int32_t>::max());
    if (!Addressed(dims, sharding, d)) continue;
    if (windows[d] == whole.dims[d]) {  // at 0 or out of bounds, here as there
      addressed.dims[d].clear();
      continue;
    }
    shifted = true;
    if (windows[d] == 1) continue;
    margin[d] = windows[d] - 1;
    limit.back() = whole.dims[d] - windows[d];
    longer = true;
  }
  if (shifted) {
    indices = WideIndices(b, indices);
    const ir::Type& type = indices->type;
    ir::Value* inside = nullptr;
    if (longer) {
      inside = b.Binary(ir::OpKind::kAnd, b.Compare("GE", indices, b.SplatInt(type, 0)),
                        b.Compare("LE", indices, PerComponent(b, dims, type, limit)));
    }
    indices = ToLocal(e, dims, indices, addressed, tile, margin);
    if (inside != nullptr) indices = b.Select(inside, indices, b.SplatInt(type, -1));
  }
  AxisList split;
  for (int64_t d : dims.scatter_indices) {
    const int f = local.rule.operands[n][d][0];
    if (local.axes[f].empty()) continue;
    // Padding among the updates goes nowhere. (-1 is out of bounds for unsigned indices too.)
    ir::Value* nowhere = b.SplatInt(ir::Type::Scalar(indices->type.element), -1);
    indices = MaskPadding(e, indices, local.op.operand(n)->type, local.operand_shardings[n],
                          static_cast<int>(d), nowhere);
    if (local.rule.factors[f].kind == Kind::kReduction) {
      split.insert(split.end(), local.axes[f].begin(), local.axes[f].end());
    }
  }
  const Reduction combine = local.rule.combine;
  if (!split.empty() && (combine == Reduction::kSum || combine == Reduction::kProduct)) {
    // The input counts once.
    ir::Value* first =
        b.Compare("EQ", e.Coordinate(split), b.SplatInt(ir::Type::Scalar(ElementType::kI32), 0));
    local.operands[0] = b.Select(first, local.operands[0],
                                 b.SplatInt(tile, combine == Reduction::kProduct ? 1 : 0));
  }
  for (size_t i = 0; i < n; ++i)
    local.operands[i] = ApartForOneIndex(b, dims, indices->type, local.operands[i]);
  if (!AddressesEverything(dims, indices->type))
    return EmitWith(local, AddressOneAtZero(local, dims));
  if (!std::any_of(margin.begin(), margin.end(), [](int64_t m) { return m > 0; }))
    return EmitAsIs(local);
  for (size_t i = 0; i < n; ++i) {
    ir::Value* fill = b.SplatInt(ir::Type::Scalar(local.operands[i]->type.element), 0);
    local.operands[i] = b.Pad(local.operands[i], fill, margin, margin);
    local.result_types[i] = local.operands[i]->type;
  }
  SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results, EmitAsIs(local));
  std::vector<int64_t> limits(tile.dims.begin(), tile.dims.end());
  for (int d = 0; d < tile.rank(); ++d) limits[d] += margin[d];
  for (ir::Value*& result : results) result = b.Slice(result, margin, limits);
  return results;
}

}  // namespace shardway::spmd
