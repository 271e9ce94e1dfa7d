#include "shardway/topology/topology.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shardway::topology {
namespace {

std::string Count(int n, const char* what) { return absl::StrCat(n, " ", what, n == 1 ? "" : "s"); }

}  // namespace

std::string Shape::ToString() const {
  return absl::StrCat(Count(islands, "island"), " x ", Count(hosts, "host"), " x ",
                      Count(devices, "device"));
}

absl::StatusOr<Topology> Topology::Create(const Shape& shape) {
  if (shape.islands < 1 || shape.hosts < 1 || shape.devices < 1) {
    return absl::InvalidArgumentError(absl::StrCat("a cluster of ", shape.ToString(),
                                                   " is empty: every number must be at least 1"));
  }
  const int64_t hosts = int64_t{shape.islands} * shape.hosts;
  if (hosts > kMaxHosts || hosts * shape.devices > kMaxDevices) {
    return absl::InvalidArgumentError(
        absl::StrCat("a cluster of ", shape.ToString(), " is too large: at most ", kMaxHosts,
                     " hosts and ", kMaxDevices, " devices are supported"));
  }
  return Topology(shape);
}

Device Topology::DeviceAt(int id) const {
  Device device;
  device.id = id;
  device.island = IslandOf(id);
  device.host = HostOf(id) % shape_.hosts;
  device.local = id % shape_.devices;
  device.coords = {device.local, device.host};
  return device;
}

std::vector<int> Topology::DevicesOfHost(int host) const {
  std::vector<int> devices(shape_.devices);
  for (int i = 0; i < shape_.devices; ++i) {
    devices[i] = host * shape_.devices + i;
  }
  return devices;
}

std::vector<int> Topology::HostsOfDevices() const {
  std::vector<int> hosts(num_devices());
  for (int i = 0; i < num_devices(); ++i) {
    hosts[i] = HostOf(i);
  }
  return hosts;
}

std::string Topology::DescribeHost(int host) const {
  const int first = host * shape_.devices;
  std::string devices = shape_.devices == 1
                            ? absl::StrCat("device ", first)
                            : absl::StrCat("devices ", first, "-", first + shape_.devices - 1);
  return absl::StrCat("host ", host % shape_.hosts, " of island ", host / shape_.hosts, " (",
                      devices, ")");
}

}  // namespace shardway::topology
