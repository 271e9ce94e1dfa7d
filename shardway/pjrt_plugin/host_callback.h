// Python callbacks of running programs (jax.debug.print, pure_callback, io_callback).
//
// The package's Python side gives each callable a number and emits a custom call with it
// (python/shardway/callbacks.py). When a device reaches the call, the session hands its operands to
// RunHostCallback, which passes them to the one dispatcher that Python registered:
//
//   shardway_set_callback_dispatcher(f)     null: callbacks fail with UNAVAILABLE
//   f(id, device, n, operands, sizes, reply)   on a thread of the session; takes the GIL itself
//   shardway_callback_result(reply, data, size)   each result's dense bytes, in order
//   shardway_callback_error(reply, message, size)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace shardway::pjrt_plugin {

absl::StatusOr<std::vector<std::string>> RunHostCallback(uint64_t callback, int device,
                                                         absl::Span<const std::string> operands);

}  // namespace shardway::pjrt_plugin
