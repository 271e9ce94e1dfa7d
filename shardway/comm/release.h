// Ends one step of a slot: everybody goes on.
#pragma once

#include "absl/status/status.h"
#include "shardway/comm/call.h"
#include "shardway/comm/launch.h"
#include "shardway/comm/work_pool.h"

namespace shardway::comm {

// By the thread that has claimed `slot`, when its results are written and its operands no longer
// read. Members that still spin go on by themselves. Suspended ones are continued on this thread
// when what follows is tiny, else each on a thread of XLA's pool, or else of `pool`. Neither slot
// nor launch may be touched afterwards, except from a member's own call.
void Release(Slot& slot, Scheduler scheduler, WorkPool& pool);

}  // namespace shardway::comm
