#include "shardway/spmd/gather_dims.h"

#include <algorithm>

namespace shardway::spmd {
namespace {

bool In(const std::vector<int64_t>& list, int64_t v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

void Complete(GatherDims& dims, int whole_rank, int parts_rank, int indices_rank) {
  for (int64_t d = 0; d < whole_rank; ++d) {
    if (!In(dims.single_dims, d) && !In(dims.batch_whole, d)) dims.window_whole.push_back(d);
  }
  for (int64_t d = 0; d < parts_rank; ++d) {
    if (!In(dims.window_dims, d)) dims.scatter_dims.push_back(d);
  }
  for (int64_t d = 0; d < indices_rank; ++d) {
    if (d != dims.index_vector_dim) dims.scatter_indices.push_back(d);
  }
}

}  // namespace

GatherDims GatherDims::OfGather(const ir::Op& op) {
  GatherDims dims;
  dims.index_vector_dim = op.Int("index_vector_dim");
  dims.index_map = op.IntList("start_index_map");
  dims.window_dims = op.IntList("offset_dims");
  dims.single_dims = op.IntList("collapsed_slice_dims");
  dims.batch_whole = op.IntList("operand_batching_dims");
  dims.batch_indices = op.IntList("start_indices_batching_dims");
  Complete(dims, op.operand(0)->type.rank(), op.result()->type.rank(), op.operand(1)->type.rank());
  return dims;
}

GatherDims GatherDims::OfScatter(const ir::Op& op) {
  const size_t n = op.results.size();
  GatherDims dims;
  dims.index_vector_dim = op.Int("index_vector_dim");
  dims.index_map = op.IntList("scatter_dims_to_operand_dims");
  dims.window_dims = op.IntList("update_window_dims");
  dims.single_dims = op.IntList("inserted_window_dims");
  dims.batch_whole = op.IntList("input_batching_dims");
  dims.batch_indices = op.IntList("scatter_indices_batching_dims");
  Complete(dims, op.operand(0)->type.rank(), op.operand(n + 1)->type.rank(),
           op.operand(n)->type.rank());
  return dims;
}

}  // namespace shardway::spmd
