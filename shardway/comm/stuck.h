// Finds collectives in which somebody has waited too long, by looking from time to time: the way of
// a collective itself takes no time stamps.
//
// Time in which a participant can't be expected does not count: while a device of the launch has
// not started it (its host compiles the program, it executes an earlier run), or calls its user
// back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shardway/base/clock.h"
#include "shardway/comm/device_board.h"
#include "shardway/comm/launch.h"

namespace shardway::comm {

// What was seen of one launch's slots. Used by one thread.
class StuckFinder {
 public:
  struct Limits {
    Duration timeout;        // once all devices of the launch are inside
    Duration start_timeout;  // in any case
  };
  // OK, or DEADLINE_EXCEEDED that names the collective and the missing devices, when a slot with
  // somebody waiting in it looks the same for too long.
  absl::Status Look(Launch& launch, const DeviceBoard& board, TimePoint now, const Limits& limits);

 private:
  struct Seen {
    uint64_t word = 0;
    TimePoint since{};
  };
  std::vector<Seen> seen_;
  TimePoint all_inside_since_{};
};

// "all_reduce sum f32[4] over … at train.py:3 (site 2, step 0): waiting for device 3 on host 1,
// which has not started the run"
std::string DescribeWaiting(Slot& slot, int32_t launch, const DeviceBoard& board);

}  // namespace shardway::comm
