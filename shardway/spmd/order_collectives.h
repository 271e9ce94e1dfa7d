// Collectives as early as their operands allow, and other work before what waits for them, so that
// a back end that keeps the order of the program sends while it computes. The peak of what is live
// stays as it is: nothing is moved where it would rise.
#pragma once

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

// In `region` and all regions inside. Only the order changes, the same way on every device;
// collectives among themselves, and what has effects, stay in theirs. Does nothing for a back end
// that hides no sending (costs.h).
void OrderCollectives(Emitter& emitter, ir::Region* region);

}  // namespace shardway::spmd
