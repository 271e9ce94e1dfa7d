// From JAX's serialized CompileOptionsProto to the session's options.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "shardway/client/session.h"

namespace shardway::pjrt_plugin {

// Without a device assignment the first devices of the cluster are meant. INVALID_ARGUMENT when the
// bytes are no CompileOptionsProto, or name devices that `num_devices` do not hold, or one twice.
// `xla_options` is equal for equal options, whatever the order in which their maps came.
absl::StatusOr<client::CompileOptions> ParseCompileOptions(std::string_view serialized,
                                                           int num_devices);

// The serialized xla.DeviceAssignmentProto of a program.
std::string SerializeDeviceAssignment(const client::CompileOptions& options);

}  // namespace shardway::pjrt_plugin
