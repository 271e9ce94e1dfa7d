// Finds collectives in which somebody has waited too long, by looking from time to time: the way of
// a collective itself takes no time stamps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shardway/base/clock.h"
#include "shardway/comm/launch.h"

namespace shardway::comm {

// What was seen of one launch's slots. Used by one thread.
class StuckFinder {
 public:
  // OK, or DEADLINE_EXCEEDED that names the collective and the missing devices, when a slot with
  // somebody waiting in it looks the same for `timeout`.
  absl::Status Look(Launch& launch, TimePoint now, Duration timeout);

 private:
  struct Seen {
    uint64_t word = 0;
    TimePoint since{};
  };
  std::vector<Seen> seen_;
};

// "all_reduce sum f32[4] over … at train.py:3 (site 2, step 0): waiting for device 3 on host 1"
std::string DescribeWaiting(Slot& slot);

}  // namespace shardway::comm
