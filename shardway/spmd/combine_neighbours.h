// Small all-gathers, reduce-scatters, all-to-alls and permutes that are alike but for their
// operands and near each other become one call: what they cost is the meeting, not the bytes. (Sums
// go further, see combine_collectives.h.)
//
// Nothing else changes its place, so that nothing lives longer than its own call makes it:
//   an earlier one waits for a later one if nothing in between uses it    (the later one's place)
//   a later one comes forward if its operands are there                   (the earlier one's place)
#pragma once

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

// Of a call, operands and results: a collective of this size costs about as much as an empty one
// (costs.h); and of all that become one.
inline constexpr int64_t kMaxNeighbourBytes = 16 << 10;
inline constexpr int64_t kMaxNeighboursBytes = 128 << 10;

// In `region` and all regions inside, before the sites are numbered. For kNative calls stay as they
// are, since the plugin has a combiner of its own.
void CombineNeighbours(Emitter& emitter, ir::Region* region);

}  // namespace shardway::spmd
