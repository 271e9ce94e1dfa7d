// Windows at positions known only when the program runs, over a dimension of which a device holds
// one tile: where the window is, and what of it lies in the tile.
#pragma once

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

// A start along a dimension as StableHLO clamps it, i32: into [0, whole - size].
ir::Value* ClampedStart(Emitter& e, ir::Value* start, int64_t whole, int64_t size);
// The same, counted from where this device's tile begins: negative when the window begins before.
ir::Value* LocalStart(Emitter& e, ir::Value* clamped, int64_t tile, const AxisList& axes);

// x[start : start + size] along `dim`, `fill` (a scalar) where that is outside of x. `start` is any
// i32; no more than about three windows are touched, however large x is.
ir::Value* WindowOrFill(ir::Builder& b, ir::Value* x, int dim, ir::Value* start, int64_t size,
                        ir::Value* fill);

// The neutral element of a sum, also for the sign of zero: x + -0.0 is x for every x.
ir::Value* NeutralOfSum(ir::Builder& b, const ir::Type& type);

}  // namespace shardway::spmd
