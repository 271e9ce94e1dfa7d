// A sort along a split dimension in place of a gather: every part sorts what it has, then the parts
// exchange whole shards as a sorting network compares, each pair keeping the lower and the upper
// half of what both have. Rounds grow with the square of log n where a gather takes n - 1 shards:
// it pays from 8 parts on.
#pragma once

#include "shardway/spmd/room.h"

namespace shardway::spmd {

// For operands split along the sorted dimension. SortExchange (room.h) says what it costs.
LocalResults SortByExchange(LocalOp& local);

}  // namespace shardway::spmd
