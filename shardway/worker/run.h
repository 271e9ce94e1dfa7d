// One launch of a program on this host, shared by the devices that take part.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "shardway/base/mutex.h"
#include "shardway/comm/communicator.h"
#include "shardway/store/array.h"
#include "shardway/worker/program.h"

namespace shardway::worker {

// XLA's launch id of a global run id: positive, the same on all hosts.
inline comm::LaunchId LaunchIdOf(uint64_t run) {
  constexpr uint64_t kModulus = 0x7fffffff;
  return static_cast<comm::LaunchId>(run % kModulus == 0 ? kModulus : run % kModulus);
}

class Run {
 public:
  // Filled by the control thread before the run is appended to the log; constant afterwards, but
  // that the last device to end drops the arrays.
  uint64_t id = 0;
  comm::LaunchId launch = 0;
  std::shared_ptr<Program> program;
  uint32_t wake_bits = 0;  // of the devices that take part
  absl::InlinedVector<std::shared_ptr<const store::Array>, 6> arguments;
  absl::InlinedVector<std::shared_ptr<const store::Array>, 6> results;
  absl::InlinedVector<int64_t, 2> keep;  // donated parameters that stay whole

  // Devices that have not ended yet.
  std::atomic<int> remaining{0};

  // Opens the communicator's bracket; the first device does, the others wait for it (it is short).
  void Begin(comm::Communicator& comm) {
    int expected = kNotBegun;
    if (bracket_.load(std::memory_order_acquire) == kBegun) return;
    if (bracket_.compare_exchange_strong(expected, kBeginning)) {
      comm.BeginLaunch(launch, program->loaded().comm);
      bracket_.store(kBegun, std::memory_order_release);
      bracket_.notify_all();
    } else {
      for (int seen = expected; seen != kBegun; seen = bracket_.load(std::memory_order_acquire)) {
        bracket_.wait(kBeginning, std::memory_order_acquire);
      }
    }
  }
  // By the last device that ends.
  void End(comm::Communicator& comm) {
    if (bracket_.load(std::memory_order_acquire) == kBegun) comm.EndLaunch(launch);
  }

  // The first failure is the run's. Returns it.
  absl::Status Fail(const absl::Status& cause) {
    MutexLock lock(mutex_);
    if (status_.ok()) status_ = cause;
    failed_.store(true, std::memory_order_release);
    return status_;
  }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  absl::Status status() {
    if (!failed()) return absl::OkStatus();
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  friend class RunLog;
  enum { kNotBegun, kBeginning, kBegun };

  std::atomic<int> bracket_{kNotBegun};
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  absl::Status status_ SHARDWAY_GUARDED_BY(mutex_);

  // The log's: cursors that have not passed this node, plus one while it is the tail.
  std::atomic<Run*> next_{nullptr};
  std::atomic<int> refs_{0};

 public:
  // Whether another run is queued behind this one.
  bool has_next() const { return next_.load(std::memory_order_relaxed) != nullptr; }
};

}  // namespace shardway::worker
