// Where every device of the cluster is: which launch it started last, and whether its program waits
// for something outside the cluster (a host callback). Each device's state is written by its own
// host and read by the others, so that a host whose devices wait in a collective can tell a
// participant that does not come from one that is not there yet: its host still compiles the
// program, or it still executes an earlier run.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"

namespace shardway::comm {

// Zeroed memory is a valid state: nothing started yet.
struct alignas(64) DeviceState {
  std::atomic<int32_t> launch{0};
  std::atomic<int32_t> outside{0};  // calls out of the program that have not returned
};

// Thread-safe; nothing in it waits.
class DeviceBoard {
 public:
  // `shared`: DeviceState[num_devices] in the hosts' shared memory, which outlives the board. Null:
  // this host is alone.
  DeviceBoard(DeviceState* shared, int num_devices)
      : own_(shared == nullptr ? std::make_unique<DeviceState[]>(num_devices) : nullptr),
        states_(shared == nullptr ? own_.get() : shared) {}

  void Start(int device, int32_t launch) {
    states_[device].launch.store(launch, std::memory_order_relaxed);
  }
  void ChangeOutside(int device, int32_t by) {
    states_[device].outside.fetch_add(by, std::memory_order_relaxed);
  }

  // Whether `device` has started `launch`. Launch ids grow in the order in which devices start
  // them, and begin anew after 2^31 - 1: a device in a later launch has started this one.
  bool HasStarted(int device, int32_t launch) const {
    const int32_t latest = states_[device].launch.load(std::memory_order_relaxed);
    if (latest <= 0) return false;
    constexpr int64_t kIds = 0x7fffffff;
    return ((int64_t{latest} - launch) % kIds + kIds) % kIds < kIds / 2;
  }
  bool IsOutside(int device) const {
    return states_[device].outside.load(std::memory_order_relaxed) > 0;
  }
  // Whether all `devices` are executing `launch` (or have executed it), none of them outside.
  bool AllInside(absl::Span<const int> devices, int32_t launch) const {
    for (int device : devices) {
      if (!HasStarted(device, launch) || IsOutside(device)) return false;
    }
    return true;
  }

 private:
  const std::unique_ptr<DeviceState[]> own_;
  DeviceState* const states_;
};

}  // namespace shardway::comm
