#include "shardway/worker/host_topology.h"

#include "absl/strings/str_cat.h"

namespace shardway::worker {

absl::StatusOr<HostTopology> HostTopology::FromMessage(const wire::Configure& message) {
  HostTopology topology;
  topology.host = message.host();
  topology.local_devices.assign(message.devices().begin(), message.devices().end());
  topology.host_of_device.assign(message.hosts_of_devices().begin(),
                                 message.hosts_of_devices().end());
  topology.local_of_device.assign(topology.host_of_device.size(), -1);
  if (topology.local_devices.empty()) {
    return absl::InvalidArgumentError("Configure: this host has no devices");
  }
  for (size_t i = 0; i < topology.local_devices.size(); ++i) {
    const int device = topology.local_devices[i];
    if (!topology.Knows(device) || topology.host_of_device[device] != topology.host ||
        topology.local_of_device[device] >= 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Configure: device ", device, " is not (one more) device of host ", topology.host));
    }
    topology.local_of_device[device] = static_cast<int>(i);
  }
  return topology;
}

}  // namespace shardway::worker
