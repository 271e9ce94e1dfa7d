#include "shardway/pjrt_plugin/compile_options.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/pjrt_plugin/compile_options.pb.h"

namespace shardway::pjrt_plugin {
namespace {

// Logical ids are replica-major; the proto lists, for each partition, its replicas' devices.
absl::StatusOr<std::vector<int>> AssignedDevices(const DeviceAssignmentProto& assignment,
                                                 int64_t replicas, int64_t partitions,
                                                 int num_devices) {
  if (assignment.computation_devices_size() != partitions) {
    return absl::InvalidArgumentError(absl::StrCat("a device assignment for ",
                                                   assignment.computation_devices_size(),
                                                   " partitions, and a program with ", partitions));
  }
  std::vector<int> devices;
  std::vector<bool> used(static_cast<size_t>(num_devices), false);
  for (int64_t r = 0; r < replicas; ++r) {
    for (const auto& partition : assignment.computation_devices()) {
      if (partition.replica_device_ids_size() != replicas) {
        return absl::InvalidArgumentError(absl::StrCat("a device assignment for ",
                                                       partition.replica_device_ids_size(),
                                                       " replicas, and a program with ", replicas));
      }
      const int64_t id = partition.replica_device_ids(static_cast<int>(r));
      if (id < 0 || id >= num_devices) {
        return absl::InvalidArgumentError(absl::StrCat(
            "a program for device ", id, ": the cluster has ", num_devices, " devices"));
      }
      if (used[static_cast<size_t>(id)]) {
        return absl::InvalidArgumentError(
            absl::StrCat("a device assignment that names device ", id, " twice"));
      }
      used[static_cast<size_t>(id)] = true;
      devices.push_back(static_cast<int>(id));
    }
  }
  return devices;
}

// What is equal gets equal bytes, in every process: caches go by them.
std::string CanonicalBytes(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream out(&bytes);
    google::protobuf::io::CodedOutputStream coded(&out);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

}  // namespace

absl::StatusOr<client::CompileOptions> ParseCompileOptions(std::string_view serialized,
                                                           int num_devices) {
  CompileOptionsProto proto;
  if (!proto.ParseFromArray(serialized.data(), static_cast<int>(serialized.size()))) {
    return absl::InvalidArgumentError("the compile options are not a CompileOptionsProto");
  }
  const ExecutableBuildOptionsProto& build = proto.executable_build_options();
  client::CompileOptions options;
  options.num_replicas = std::max<int64_t>(build.num_replicas(), 1);
  options.num_partitions = std::max<int64_t>(build.num_partitions(), 1);
  if (options.num_replicas > num_devices ||
      options.num_partitions > num_devices / options.num_replicas) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a program of ", options.num_replicas, " replicas and ", options.num_partitions,
        " partitions, and a cluster of ", num_devices, " devices"));
  }
  if (build.has_device_assignment()) {
    SHARDWAY_ASSIGN_OR_RETURN(options.devices,
                              AssignedDevices(build.device_assignment(), options.num_replicas,
                                              options.num_partitions, num_devices));
  } else {
    for (int i = 0; i < options.num_replicas * options.num_partitions; ++i) {
      options.devices.push_back(i);
    }
  }
  const auto& to_parameters = build.allow_spmd_sharding_propagation_to_parameters();
  const auto& to_results = build.allow_spmd_sharding_propagation_to_output();
  options.allow_propagation_to_parameters.assign(to_parameters.begin(), to_parameters.end());
  options.allow_propagation_to_results.assign(to_results.begin(), to_results.end());
  options.use_shardy = build.use_shardy_partitioner();
  options.xla_options = CanonicalBytes(proto);
  return options;
}

std::string SerializeDeviceAssignment(const client::CompileOptions& options) {
  DeviceAssignmentProto proto;
  proto.set_replica_count(static_cast<int32_t>(options.num_replicas));
  proto.set_computation_count(static_cast<int32_t>(options.num_partitions));
  for (int64_t p = 0; p < options.num_partitions; ++p) {
    auto* partition = proto.add_computation_devices();
    for (int64_t r = 0; r < options.num_replicas; ++r) {
      partition->add_replica_device_ids(
          options.devices[static_cast<size_t>(r * options.num_partitions + p)]);
    }
  }
  return proto.SerializeAsString();
}

}  // namespace shardway::pjrt_plugin
