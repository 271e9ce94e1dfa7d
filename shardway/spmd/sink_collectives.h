// Collectives whose results only one branch of a conditional takes are done in that branch:
//
//   u = all_gather(w); if (p) { f(u) } else { 0 }
//   → if (p) { u = all_gather(w); f(u) } else { 0 }
//
// What lies between the collective and the branch goes along. Nothing is sent that was not sent
// before; where the branch is not taken it is not sent at all. Only into branches that all devices
// take alike (Emitter::TakenAlike): the others would wait for who does not come.
#pragma once

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

// In `region` and all regions inside, before the sites are numbered. After HoistCollectives, whose
// work it does not undo: what leaves a loop is used in the loop.
void SinkCollectives(Emitter& emitter, ir::Region* region);

}  // namespace shardway::spmd
