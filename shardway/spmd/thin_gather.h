// Gathering a dimension that has fewer rows than there are parts: an all-gather would send mostly
// padding (one row over 8 devices: 7 parts hold nothing). Instead each part puts its rows in place
// among zeros and the parts are added up as unsigned integers, which changes no bit: twice the real
// rows are sent, not all parts' tiles.
#pragma once

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

// Whether that sends less, of `parts` tiles of `tile` rows whose first `rows` rows are real.
bool IsThin(ElementType element, int64_t tile, int64_t parts, int64_t rows);

// `tile` is this device's shard; the result has the `rows` real rows along `dim`.
ir::Value* ThinGather(Emitter& e, ir::Value* tile, int dim, int64_t rows, const AxisList& axes);

}  // namespace shardway::spmd
