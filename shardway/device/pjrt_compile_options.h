// The serialized xla.CompileOptionsProto that a per-device program is compiled with.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace shardway::device {

// One replica, one partition, portable (runs on any device of the client). From `user_options`, the
// user's own CompileOptionsProto (may be empty), are kept: debug options, compilation environments,
// option overrides (jax's compiler_options) and matrix precision. What concerns devices, layouts
// and partitioning describes the whole mesh and is dropped. INVALID_ARGUMENT when it is not a
// message.
absl::StatusOr<std::string> PerDeviceCompileOptions(std::string_view user_options);

}  // namespace shardway::device
