// Small all-reduces that do not depend on each other become one: what they cost is the meeting, not
// the bytes. The gradients of one layer of a data-parallel model are reduced in one step, not in
// six.
#pragma once

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

inline constexpr int64_t kMaxCombinedOperandBytes = 256 << 10;  // larger ones overlap better alone
inline constexpr int64_t kMaxCombinedBytes = 4 << 20;

// In `region` and all regions inside, before the sites are numbered. Operators may change places;
// data flow stays.
void CombineAllReduces(Emitter& emitter, ir::Region* region);

}  // namespace shardway::spmd
