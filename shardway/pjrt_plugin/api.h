// The table of functions that a PJRT plugin is: version, extensions, one entry per function.
#pragma once

#include "pjrt_c_api.h"

namespace shardway::pjrt_plugin {

// Static; entries that no client of ours needs answer UNIMPLEMENTED, naming themselves.
const PJRT_Api* Api();

}  // namespace shardway::pjrt_plugin
