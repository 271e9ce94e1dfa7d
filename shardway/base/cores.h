// How many cores this process may count on.
#pragma once

#include <algorithm>
#include <thread>

namespace shardway {

// At least 1.
inline int Cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace shardway
