// Collectives that give the same in every round of a loop are done once, before it:
//
//   while (w, …) { u = all_gather(tanh(w)); …; return w, … }
//   → u = all_gather(tanh(w)); while (w, …) { …; return w, … }
//
// A value is *invariant* in a loop when it comes from outside, when it is state that the loop hands
// on, or when an operator without effects makes it of invariant values. A collective moves together
// with the operators that make its operands, and takes those along that only make its result
// smaller. So it leaves bodies, conditions, branches inside loops (where it may then be done though
// no round takes the branch) and, loop by loop, nests of loops.
//
// The trade: its result then lives as long as the loop. It moves when the bytes that the later
// rounds would have sent are at least those; a loop of unknown length counts as 16 rounds.
//
// State that a loop hands on and that is only resharded is not left to this pass: loop_hoisting.h
// does it while the loop is written, once for all uses.
#pragma once

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

// In all loops inside `region`, before the sites are numbered.
void HoistCollectives(Emitter& emitter, ir::Region* region);

}  // namespace shardway::spmd
