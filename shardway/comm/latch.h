// A runtime whose device is a plain thread: one that must wait blocks it. For probes of links and
// for tests, where no XLA program is behind a collective.
#pragma once

#include <algorithm>

#include "shardway/base/clock.h"
#include "shardway/base/mutex.h"
#include "shardway/comm/runtime.h"

namespace shardway::comm {

// One for each device, for one call at a time.
class Latch : public Runtime {
 public:
  absl::StatusOr<uintptr_t> Suspend(void*) override { return reinterpret_cast<uintptr_t>(this); }
  void Resume(uintptr_t, const absl::Status& status) override {
    MutexLock lock(mutex_);
    status_ = status;
    resumed_ = true;
    changed_.NotifyAll();
  }
  bool Schedule(void*, void (*)(void*), void*) override { return false; }

  // How the call ended. False when `deadline` passes first: the device is suspended still.
  bool Await(const Clock& clock, TimePoint deadline, absl::Status* status) {
    MutexLock lock(mutex_);
    while (!resumed_) {
      const Duration left = deadline - clock.Now();
      if (left <= Duration(0)) return false;
      changed_.WaitFor(mutex_, std::min<Duration>(left, std::chrono::milliseconds(100)));
    }
    resumed_ = false;
    *status = status_;
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool resumed_ SHARDWAY_GUARDED_BY(mutex_) = false;
  absl::Status status_ SHARDWAY_GUARDED_BY(mutex_);
};

}  // namespace shardway::comm
