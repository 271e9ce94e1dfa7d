// An operation of the controller (put, assemble, copy) that has several parts on this host.
#pragma once

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "shardway/base/mutex.h"
#include "shardway/worker/outbox.h"

namespace shardway::worker {

// Reports to the controller when its last holder lets go of it, with the first failure of a part.
// Held by shared_ptr; thread-safe.
class Operation {
 public:
  Operation(uint64_t id, Outbox* outbox) : id_(id), outbox_(outbox) {}
  ~Operation() { outbox_->Ended(id_, status_, Outbox::Urgency::kPost); }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  void Fail(const absl::Status& cause) {
    MutexLock lock(mutex_);
    if (status_.ok()) status_ = cause;
  }

 private:
  const uint64_t id_;
  Outbox* const outbox_;
  Mutex mutex_;
  absl::Status status_;  // under mutex_ while it has more than one holder
};

}  // namespace shardway::worker
