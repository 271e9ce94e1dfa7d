// Windowed einsum (GSPMD §4.6, "collective matmul"): a collective and the dot_generals that wait
// for it become partial dots while tiles are handed around a ring (ring.h), so that sending goes on
// beside computing.
//
//   all_gather → dot_general       tiles of the operand circulate; the gathered dimension is
//     free or batch                a block of the result for each tile
//     contracting                  a partial sum for each tile, with that part of the other operand
//   dot_general → reduce_scatter   sums of blocks of the result circulate; each device adds its own
//
// A pass over the per-device program: it knows nothing of shardings, so that a user's collectives
// in manual regions are windowed like the partitioner's own. The same bytes are sent as before.
#pragma once

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

enum class WindowedEinsum {
  kAuto,    // where costs.h says that it pays
  kAlways,  // wherever it can be: for tests
  kNever,
};

// In `region` and all regions inside, before the sites are numbered. `poison`: what tiles hold
// beyond the end of the gathered dimension is filled with NaN (integers: with 113).
void WindowEinsums(Emitter& emitter, ir::Region* region, WindowedEinsum when, bool poison);

}  // namespace shardway::spmd
