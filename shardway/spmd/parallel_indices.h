// Indices that count along: advanced indexing writes a batch dimension as an iota among the
// components of an index, a[arange(n), columns]. Row i of the indices then addresses row i of the
// tensor and nothing else, and both are split alike ("index parallel").
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "shardway/spmd/gather_dims.h"

namespace shardway::spmd {

// The dimension along which `v` counts 0, 1, 2, …, the same in all the others; nullopt when that is
// not plain from how it is made.
std::optional<int> IotaDimension(const ir::Value* v);

// Pairs of a dimension of `whole` and the dimension of `indices` that it runs along with, of one
// size; no dimension occurs twice.
std::vector<std::pair<int64_t, int64_t>> ParallelDims(const GatherDims& dims, const ir::Type& whole,
                                                      const ir::Value* indices);

}  // namespace shardway::spmd
