// Python callbacks of running programs (jax.debug.print, pure_callback, io_callback).
//
// The package's Python side gives each callable a number and emits a custom call with it
// (python/shardway/callbacks.py). When a device reaches the call, the session hands its operands to
// RunHostCallback, which passes them to the one dispatcher that Python registered through the
// library's C functions (plugin_main.cc):
//
//   shardway_set_callback_dispatcher(f)           null: callbacks fail with UNAVAILABLE
//   shardway_callback_retire(id, g)               no new run calls it; g(id), on any thread, once
//                                                 those on their way have ended
//   f(id, device, n, operands, sizes, reply)      on a thread of the session; takes the GIL itself
//   shardway_callback_result(reply, data, size)   each result's dense bytes, in order
//   shardway_callback_error(reply, message, size)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

// A call's answer, filled in by the dispatcher while it runs.
struct ShardwayCallbackReply {
  std::vector<std::string> results;
  absl::Status status;
};

namespace shardway::pjrt_plugin {

using CallbackDispatcher = void (*)(uint64_t id, int device, size_t num_operands,
                                    const void* const* operands, const size_t* sizes,
                                    ShardwayCallbackReply* reply);

// For the whole process. Thread-safe.
void SetCallbackDispatcher(CallbackDispatcher dispatcher);

// Calls `retired(callback)` once everything that was launched so far, by any client of this
// process, has ended: nothing calls the callback any more. Not after the dispatcher was taken away.
using CallbackRetired = void (*)(uint64_t id);
void RetireCallback(uint64_t callback, CallbackRetired retired);

// INTERNAL with the user's traceback when the function raised.
absl::StatusOr<std::vector<std::string>> RunHostCallback(uint64_t callback, int device,
                                                         absl::Span<const std::string> operands);

}  // namespace shardway::pjrt_plugin
