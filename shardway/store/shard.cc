#include "shardway/store/shard.h"

#include <utility>

namespace shardway::store {

Shard::~Shard() {
  if (account_ != nullptr && buffer_ != nullptr) account_->Add(device_, -buffer_->num_bytes());
}

void Shard::Fulfil(std::shared_ptr<device::Buffer> buffer) {
  Resolve(State::kReady, std::move(buffer), absl::OkStatus());
}

void Shard::Poison(absl::Status cause) { Resolve(State::kPoisoned, nullptr, std::move(cause)); }

void Shard::Resolve(State state, std::shared_ptr<device::Buffer> buffer, absl::Status cause) {
  std::vector<absl::AnyInvocable<void() &&>> waiting;
  {
    MutexLock lock(mutex_);
    if (state_.load(std::memory_order_relaxed) != State::kPending) return;
    if (buffer != nullptr && account_ != nullptr) account_->Add(device_, buffer->num_bytes());
    buffer_ = std::move(buffer);
    cause_ = std::move(cause);
    state_.store(state, std::memory_order_release);
    waiting.swap(waiting_);
  }
  for (auto& action : waiting) std::move(action)();
}

absl::Status Shard::StatusLocked() const {
  switch (state_.load(std::memory_order_relaxed)) {
    case State::kReady:
      return absl::OkStatus();
    case State::kPoisoned:
      return cause_;
    case State::kPending:
      return absl::FailedPreconditionError("the array's contents are not there yet");
    case State::kDonated:
      break;
  }
  return absl::FailedPreconditionError(
      "the array was donated to a computation and is deleted; its contents are gone");
}

absl::Status Shard::status() const {
  MutexLock lock(mutex_);
  return StatusLocked();
}

absl::StatusOr<std::shared_ptr<device::Buffer>> Shard::Share() const {
  MutexLock lock(mutex_);
  if (absl::Status status = StatusLocked(); !status.ok()) return status;
  return buffer_;
}

bool Shard::IsShared() const {
  MutexLock lock(mutex_);
  return buffer_.use_count() > 1;
}

void Shard::Donate() {
  std::shared_ptr<device::Buffer> dropped;  // freed after the lock is
  MutexLock lock(mutex_);
  if (state_.load(std::memory_order_relaxed) != State::kReady) return;
  if (account_ != nullptr) account_->Add(device_, -buffer_->num_bytes());
  dropped.swap(buffer_);
  state_.store(State::kDonated, std::memory_order_release);
}

void Shard::OnResolved(absl::AnyInvocable<void() &&> action) {
  {
    MutexLock lock(mutex_);
    if (state_.load(std::memory_order_relaxed) == State::kPending) {
      waiting_.push_back(std::move(action));
      return;
    }
  }
  std::move(action)();
}

bool Shard::Wait(Duration timeout) {
  if (!pending()) return true;
  struct Latch {
    Mutex mutex;
    CondVar changed;
    bool done SHARDWAY_GUARDED_BY(mutex) = false;
  };
  auto latch = std::make_shared<Latch>();
  OnResolved([latch] {
    MutexLock lock(latch->mutex);
    latch->done = true;
    latch->changed.NotifyAll();
  });
  const TimePoint deadline = Clock::Real()->Now() + timeout;
  MutexLock lock(latch->mutex);
  while (!latch->done) {
    const Duration left = deadline - Clock::Real()->Now();
    if (left <= Duration::zero()) return false;
    latch->changed.WaitFor(latch->mutex, left);
  }
  return true;
}

}  // namespace shardway::store
