#include "shardway/spmd/expansion.h"

namespace shardway::spmd {

// The new dimensions come first.
Expansion ExpandBroadcast(const ir::Op& op, ir::Builder& b) {
  const ir::Type& type = op.result()->type;
  std::vector<int64_t> dims;
  for (int d = type.rank() - op.operand(0)->type.rank(); d < type.rank(); ++d) dims.push_back(d);
  return std::vector<ir::Value*>{b.BroadcastInDim(op.operand(0), type.dims, dims)};
}

// Given operand [B, o, d, p] and indices [B, i], dim the d: result [B, o, i, p], with as many
// dimensions B as batch_dims says; a gather of windows [1, o, 1, p].
Expansion ExpandTorchIndexSelect(const ir::Op& op, ir::Builder& b) {
  const ir::Type& from = op.operand(0)->type;
  const ir::Type& indices = op.operand(1)->type;
  const int64_t dim = op.Int("dim");
  const int64_t batch = op.Int("batch_dims");
  if (batch > dim || batch > indices.rank())
    return Malformed(op, "it has more batch dimensions than come before its dim or in its indices");
  std::vector<int64_t> batching, offset, sizes;
  for (int64_t d = 0; d < from.rank(); ++d) {
    if (d < batch) {
      batching.push_back(d);
    } else if (d != dim) {
      offset.push_back(d < dim ? d : d - 1 + indices.rank() - batch);
    }
    sizes.push_back(d < batch || d == dim ? 1 : from.dims[d]);
  }
  ir::AttrDict attributes;
  ir::Set(attributes, "offset_dims", std::move(offset));
  ir::Set(attributes, "collapsed_slice_dims", std::vector<int64_t>{dim});
  ir::Set(attributes, "operand_batching_dims", batching);
  ir::Set(attributes, "start_indices_batching_dims", std::move(batching));
  ir::Set(attributes, "start_index_map", std::vector<int64_t>{dim});
  ir::Set(attributes, "index_vector_dim", static_cast<int64_t>(indices.rank()));
  ir::Set(attributes, "slice_sizes", std::move(sizes));
  const ir::Type& type = op.result()->type;
  return b.Create(ir::OpKind::kGather, op.operands, {&type, 1}, std::move(attributes))->results;
}

}  // namespace shardway::spmd
