// The one place where a worker gives its plugin the custom calls that programs may make.
#pragma once

#include "shardway/device/device.h"

namespace shardway::worker {

// Collectives, host callbacks, linear algebra. A plugin that can't register handlers still runs
// programs without them: that is logged, not an error.
void RegisterFfiHandlers(device::Client& devices);

}  // namespace shardway::worker
