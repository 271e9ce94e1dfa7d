// Writes a windowed einsum: the ring, the partial dots, and what puts them together.
#pragma once

#include "shardway/spmd/einsum_window.h"
#include "shardway/spmd/ring.h"

namespace shardway::spmd {

// Both append to the emitter's region. What `window.dots` gave, in their order. Sums of narrow
// floats are kept in f32. `poison` as in windowed_einsum.h.
std::vector<ir::Value*> EmitGatherWindow(Emitter& e, const GatherWindow& window, Ring& ring,
                                         bool poison);
// What `window.scatter` gave.
ir::Value* EmitScatterWindow(Emitter& e, const ScatterWindow& window, Ring& ring);

}  // namespace shardway::spmd
