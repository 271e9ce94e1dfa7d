// One shard of an array on one device: a value that is named before it exists.
//
//   pending ──Fulfil──▶ ready ──Donate──▶ donated
//      └─────Poison──▶ poisoned
//
// Whoever made the shard (the run, the upload, the copy) resolves it exactly once, with Fulfil or
// Poison. Only the executor of the shard's device donates it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardway/base/clock.h"
#include "shardway/base/mutex.h"
#include "shardway/device/device.h"
#include "shardway/store/account.h"

namespace shardway::store {

// Thread-safe but for what is said at borrowed(). Held by shared_ptr, by arrays and by whoever
// still works with it.
class Shard {
 public:
  enum class State : uint8_t { kPending, kReady, kPoisoned, kDonated };

  Shard(int device, std::shared_ptr<Account> account)
      : device_(device), account_(std::move(account)) {}
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  int device() const { return device_; }  // local ordinal
  State state() const { return state_.load(std::memory_order_acquire); }
  bool pending() const { return state() == State::kPending; }

  void Fulfil(std::shared_ptr<device::Buffer> buffer);
  void Poison(absl::Status cause);

  // The buffer, kept alive by the caller: also past a donation (the executor then does not reuse
  // its memory). An error when there is none: the poison, or FAILED_PRECONDITION when pending or
  // donated.
  absl::StatusOr<std::shared_ptr<device::Buffer>> Share() const;

  // The buffer without a reference; null unless ready. For the executor of the shard's device,
  // which alone takes it away: valid until that thread calls Donate.
  device::Buffer* borrowed() const { return state() == State::kReady ? buffer_.get() : nullptr; }

  // True when somebody holds the buffer from Share(): a run must not reuse its memory.
  bool IsShared() const;
  // The run that consumed it has started: lets go of the buffer.
  void Donate();

  // OK when ready; otherwise what Share() says.
  absl::Status status() const;

  // Calls `action` once when the shard is no longer pending: at once, or later in the resolving
  // thread, before that thread goes on. It must not block, nor wait for another shard.
  void OnResolved(absl::AnyInvocable<void() &&> action);
  // Blocks until the shard is no longer pending; false when `timeout` passed first.
  bool Wait(Duration timeout);

 private:
  absl::Status StatusLocked() const SHARDWAY_REQUIRES(mutex_);
  void Resolve(State state, std::shared_ptr<device::Buffer> buffer, absl::Status cause);

  const int device_;
  std::atomic<State> state_{State::kPending};
  mutable Mutex mutex_;
  std::shared_ptr<device::Buffer> buffer_;  // written under mutex_; see borrowed()
  absl::Status cause_ SHARDWAY_GUARDED_BY(mutex_);
  std::vector<absl::AnyInvocable<void() &&>> waiting_ SHARDWAY_GUARDED_BY(mutex_);
  const std::shared_ptr<Account> account_;  // may be null
};

}  // namespace shardway::store
