// Transfers with the host that one device does alone.
#pragma once

#include <string_view>

namespace shardway::spmd {

// On infeed, outfeed, send, recv: the device (a partition) that the user has put it on.
inline constexpr std::string_view kOnDevice = "shardway.on_device";

}  // namespace shardway::spmd
