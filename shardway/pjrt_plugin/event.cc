#include "shardway/pjrt_plugin/event.h"

#include <new>
#include <utility>

#include "shardway/pjrt_plugin/error.h"

namespace shardway::pjrt_plugin {
namespace {

// Events that were made together: one allocation, gone when the last of them is destroyed.
struct EventBlock {
  std::shared_ptr<EventState> state;
  std::atomic<size_t> alive;
};

}  // namespace
}  // namespace shardway::pjrt_plugin

struct PJRT_Event {
  shardway::pjrt_plugin::EventBlock* block;
};

namespace shardway::pjrt_plugin {

std::shared_ptr<EventState> EventState::Completed(absl::Status status) {
  auto state = std::make_shared<EventState>();
  state->status_ = std::move(status);
  state->ready_.store(true, std::memory_order_release);
  return state;
}

void EventState::Complete(absl::Status status) {
  absl::InlinedVector<Waiter, 8> waiters;
  {
    MutexLock lock(mutex_);
    status_ = std::move(status);
    ready_.store(true, std::memory_order_release);
    waiters = std::move(waiters_);
    waiters_.clear();
    completed_.NotifyAll();
  }
  for (const Waiter& waiter : waiters) {
    waiter.callback(ToError(status_), waiter.user_arg);
  }
}

void EventState::OnReady(PJRT_Event_OnReadyCallback callback, void* user_arg) {
  if (!ready()) {
    MutexLock lock(mutex_);
    if (!ready()) {
      waiters_.push_back({callback, user_arg});
      return;
    }
  }
  callback(ToError(status_), user_arg);
}

bool EventState::AwaitFor(Duration timeout) {
  const TimePoint deadline = Clock::Real()->Now() + timeout;
  MutexLock lock(mutex_);
  while (!ready()) {
    const Duration left = deadline - Clock::Real()->Now();
    if (left <= Duration::zero()) return false;
    completed_.WaitFor(mutex_, left);
  }
  return true;
}

const absl::Status& EventState::Await() {
  if (!ready()) {
    MutexLock lock(mutex_);
    while (!ready()) {
      completed_.Wait(mutex_);
    }
  }
  return status_;
}

void NewEvents(std::shared_ptr<EventState> state, absl::Span<PJRT_Event*> events) {
  static_assert(alignof(EventBlock) % alignof(PJRT_Event) == 0);
  void* memory = ::operator new(sizeof(EventBlock) + events.size() * sizeof(PJRT_Event));
  auto* block = new (memory) EventBlock{std::move(state), {events.size()}};
  auto* views = reinterpret_cast<PJRT_Event*>(block + 1);
  for (size_t i = 0; i < events.size(); ++i) {
    events[i] = new (views + i) PJRT_Event{block};
  }
}

PJRT_Event* NewEvent(std::shared_ptr<EventState> state) {
  PJRT_Event* event;
  NewEvents(std::move(state), absl::MakeSpan(&event, 1));
  return event;
}

PJRT_Error* EventDestroy(PJRT_Event_Destroy_Args* args) {
  if (args->event == nullptr) return nullptr;
  EventBlock* block = args->event->block;
  if (block->alive.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    block->~EventBlock();
    ::operator delete(block);
  }
  return nullptr;
}

PJRT_Error* EventIsReady(PJRT_Event_IsReady_Args* args) {
  args->is_ready = args->event->block->state->ready();
  return nullptr;
}

PJRT_Error* EventError(PJRT_Event_Error_Args* args) {
  const EventState& state = *args->event->block->state;
  if (!state.ready()) {
    return ToError(absl::FailedPreconditionError(
        "PJRT_Event_Error was called on an event that is not ready yet"));
  }
  return ToError(state.status());
}

PJRT_Error* EventAwait(PJRT_Event_Await_Args* args) {
  const std::shared_ptr<EventState> state = args->event->block->state;
  return ToError(state->Await());
}

PJRT_Error* EventOnReady(PJRT_Event_OnReady_Args* args) {
  // The callback may destroy the event, so the state is held here.
  const std::shared_ptr<EventState> state = args->event->block->state;
  state->OnReady(args->callback, args->user_arg);
  return nullptr;
}

}  // namespace shardway::pjrt_plugin
