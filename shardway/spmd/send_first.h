// An argument that is computed with and then permuted is permuted first:
//
//   permute(tanh(2 x)) → tanh(2 permute(x))
//
// The caller keeps the argument, so what is computed from it is a copy; the permute makes another
// one. The other way round the permute makes the only copy, and elementwise operators overwrite it.
// Nothing more is sent or computed: only a permute in which every device receives, and operators
// that map each element alone, by numbers that are the same everywhere, change places.
#pragma once

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

// In `body`, the body of the main function, before the sites are numbered.
void SendFirst(Emitter& emitter, ir::Region* body);

}  // namespace shardway::spmd
