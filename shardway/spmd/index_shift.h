// Indices of the whole tensor as indices of a shard, for gather and scatter.
#pragma once

#include <vector>

#include "shardway/spmd/room.h"

namespace shardway::spmd {

// The offset of this device's tile along the dimensions of `whole` that the components of an index
// address, broadcast to the indices' shape; null when none of them is split. `map` is the index
// map, `single` the dimensions whose windows are one element (only those may be split and
// addressed).
ir::Value* TileOffsets(Emitter& e, ir::Value* indices, int64_t index_vector_dim,
                       const std::vector<int64_t>& map, const std::vector<int64_t>& single,
                       const Sharding& sharding, const ir::Type& local_type);

}  // namespace shardway::spmd
