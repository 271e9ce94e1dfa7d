// Indices of the whole tensor as indices of a shard, for gather and scatter.
#pragma once

#include <vector>

#include "shardway/spmd/gather_dims.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {

// Indices of a signed type of 32 bits or more, so that what is subtracted fits. An unsigned index
// beyond that type's range becomes negative: out of bounds still.
ir::Value* WideIndices(ir::Builder& b, ir::Value* indices);

// One number for each component of an index, broadcast to the shape of `indices`.
ir::Value* PerComponent(ir::Builder& b, const GatherDims& dims, const ir::Type& indices,
                        const std::vector<int64_t>& values);

// Whether `whole`'s dimension d is addressed by an index and split.
bool Addressed(const GatherDims& dims, const Sharding& sharding, int64_t d);

// Indices counted from where this device's tile begins, in all dimensions that are addressed and
// split, and `margin[d]` before it. The same value when there are none.
ir::Value* ToLocal(Emitter& e, const GatherDims& dims, ir::Value* indices, const Sharding& sharding,
                   const ir::Type& tile, const std::vector<int64_t>& margin);

// Whether a gather or scatter looks up a single index. XLA turns it into a dynamic slice, and
// merges a slice of a slice by adding their starts: wrong for an index that is out of bounds,
// whichever of the two it is.
bool IsOneIndex(const GatherDims& dims, const ir::Type& indices);

// `whole`, a scatter's operand, apart from what it was cut from where there is one index.
ir::Value* ApartForOneIndex(ir::Builder& b, const GatherDims& dims, const ir::Type& indices,
                            ir::Value* whole);

}  // namespace shardway::spmd
