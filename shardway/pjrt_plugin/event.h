// Events: views of a state that a run, an array or a transfer reaches once.
//
// JAX asks for one event per device and for events of every shard; all of them that mean the same
// thing share one EventState, so an Execute on N devices costs one state and one block of N views.
//
// Thread-safe. Callbacks run on the thread that completes the state (the session's reader), or at
// once on the caller's when it is complete; no lock is held meanwhile.
#pragma once

#include <atomic>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pjrt_c_api.h"
#include "shardway/base/clock.h"
#include "shardway/base/mutex.h"

namespace shardway::pjrt_plugin {

class EventState {
 public:
  // One that is complete from the start.
  static std::shared_ptr<EventState> Completed(absl::Status status);

  bool ready() const { return ready_.load(std::memory_order_acquire); }
  const absl::Status& status() const { return status_; }  // only once ready

  void Complete(absl::Status status);
  void OnReady(PJRT_Event_OnReadyCallback callback, void* user_arg);
  // False when it is not complete within `timeout`.
  bool AwaitFor(Duration timeout);
  // Blocks. No deadline of its own: whoever completes the state has one (client/session.h).
  const absl::Status& Await();

 private:
  struct Waiter {
    PJRT_Event_OnReadyCallback callback;
    void* user_arg;
  };

  Mutex mutex_;
  CondVar completed_;
  std::atomic<bool> ready_{false};
  absl::Status status_;  // written once, before ready_
  absl::InlinedVector<Waiter, 8> waiters_ SHARDWAY_GUARDED_BY(mutex_);
};

// New events on `state`, each destroyed by its own PJRT_Event_Destroy.
PJRT_Event* NewEvent(std::shared_ptr<EventState> state);
void NewEvents(std::shared_ptr<EventState> state, absl::Span<PJRT_Event*> events);

// The API's functions about events.
PJRT_Error* EventDestroy(PJRT_Event_Destroy_Args* args);
PJRT_Error* EventIsReady(PJRT_Event_IsReady_Args* args);
PJRT_Error* EventError(PJRT_Event_Error_Args* args);
PJRT_Error* EventAwait(PJRT_Event_Await_Args* args);
PJRT_Error* EventOnReady(PJRT_Event_OnReady_Args* args);

}  // namespace shardway::pjrt_plugin
