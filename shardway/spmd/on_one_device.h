// An operator with an effect outside the program, which one device has for all: a user's function
// that is called, data that is handed to the host.
//
//   %r = stablehlo.if %is_d { op } else { zeros }
//   collective_broadcast %r from d
#pragma once

#include "shardway/spmd/room.h"

namespace shardway::spmd {

// `local`'s operator with `attributes`, by device `device` of each replica; its tensors are then
// everybody's, its tokens order what comes after them on each device.
LocalResults EmitOnDevice(LocalOp& local, int64_t device, ir::AttrDict attributes);

}  // namespace shardway::spmd
