// Calls from a running program to Python functions of its user: jax.debug.print, pure_callback,
// io_callback. In a program such a call is the custom call kHostCallbackTarget with the attribute
// `callback` (i64), the id that the client knows the function by, and perhaps `name`, for messages.
//
//   XLA ──operands──▶ handler ──HostCallback──▶ controller ──▶ client runs the function
//   XLA ◀──results── promise ◀─CallbackReturn── controller ◀──┘
//
// The handler copies the operands out and returns a future: no thread of XLA waits for Python. When
// a session ends its pending calls fail; so does a call whose function does not return in time (it
// goes on in the user's process, its results are dropped). Meanwhile the device counts as outside:
// nobody blames it for not coming to a collective.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "shardway/base/ids.h"
#include "shardway/base/mutex.h"
#include "shardway/comm/communicator.h"
#include "shardway/comm/watchdog.h"
#include "shardway/wire/worker.pb.h"
#include "shardway/worker/host_topology.h"
#include "shardway/worker/launch_registry.h"
#include "shardway/worker/outbox.h"
#include "shardway/worker/task_pool.h"

namespace shardway::worker {

inline constexpr std::string_view kHostCallbackTarget = "shardway.callback";

// Thread-safe. At most one per process at a time: the handler finds it by itself.
class HostCallbacks {
 public:
  // Everything outlives it. `timeout`: how long a call may take.
  HostCallbacks(const HostTopology* topology, const LaunchRegistry* launches,
                comm::Communicator* comm, Outbox* outbox, Duration timeout,
                Clock* clock = Clock::Real());
  ~HostCallbacks();  // fails what is pending; no program runs any more

  // The handler (XLA_FFI_Handler*) for kHostCallbackTarget.
  static void* Handler();

  // The client's answer. Unknown calls are ignored: their session ended.
  void Return(const wire::CallbackReturn& message);
  // The session ended: its calls fail.
  void Cancel(SessionId session);

  // One call that waits for its answer (host_callback.cc). Public for the handler alone.
  struct Pending;
  void Start(int32_t launch_key, int64_t callback, std::vector<std::string> operands,
             std::shared_ptr<Pending> pending);

 private:
  // Fails the calls that have taken too long.
  void LookForLate();
  // Completes it in a thread that may continue XLA programs.
  void Complete(std::shared_ptr<Pending> pending, absl::Status status);

  const HostTopology* const topology_;
  const LaunchRegistry* const launches_;
  comm::Communicator* const comm_;
  Outbox* const outbox_;
  const Duration timeout_;
  Clock* const clock_;
  Mutex mutex_;
  uint64_t last_call_ SHARDWAY_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Pending>> pending_ SHARDWAY_GUARDED_BY(mutex_);
  TaskPool pool_;
  comm::Watchdog watchdog_;
};

}  // namespace shardway::worker
