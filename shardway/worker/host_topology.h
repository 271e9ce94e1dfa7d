// Where the devices of the cluster are, from one host's point of view.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "shardway/wire/worker.pb.h"

namespace shardway::worker {

// Immutable.
struct HostTopology {
  int host = 0;
  std::vector<int> local_devices;    // global ids, by local ordinal (XLA's device ordinal)
  std::vector<int> host_of_device;   // by global id
  std::vector<int> local_of_device;  // by global id: local ordinal, or -1 on other hosts

  int num_local() const { return static_cast<int>(local_devices.size()); }
  bool Knows(int device) const {
    return device >= 0 && device < static_cast<int>(host_of_device.size());
  }
  // The local ordinal of a global id, or -1: another host's, or unknown.
  int Local(int device) const { return Knows(device) ? local_of_device[device] : -1; }

  // INVALID_ARGUMENT when devices are missing, unknown, named twice or not this host's.
  static absl::StatusOr<HostTopology> FromMessage(const wire::Configure& message);
};

}  // namespace shardway::worker
