// How the dimensions of gather and scatter correspond; both have the same structure, read either
// way.
#pragma once

#include <vector>

#include "shardway/ir/module.h"

namespace shardway::spmd {

// Gather: `whole` is the operand, `parts` the result. Scatter: `whole` is the input, `parts` the
// updates.
struct GatherDims {
  int64_t index_vector_dim = 0;
  std::vector<int64_t> index_map;        // component of an index → dimension of `whole`
  std::vector<int64_t> window_dims;      // of `parts`, in order …
  std::vector<int64_t> window_whole;     // … and the dimensions of `whole` they are windows of
  std::vector<int64_t> single_dims;      // of `whole`: windows of one element, not in `parts`
  std::vector<int64_t> batch_whole;      // batching dimensions of `whole` …
  std::vector<int64_t> batch_indices;    // … and of the indices
  std::vector<int64_t> scatter_dims;     // the other dimensions of `parts`, in order …
  std::vector<int64_t> scatter_indices;  // … and the dimensions of the indices they are

  static GatherDims OfGather(const ir::Op& op);
  static GatherDims OfScatter(const ir::Op& op);  // of its first input and update
};

}  // namespace shardway::spmd
