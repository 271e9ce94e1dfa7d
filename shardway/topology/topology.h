// What the cluster is made of: islands (devices joined by a fast interconnect) of hosts of devices.
//
// Device ids are global and dense from 0, island-major, then host, then device, so the devices of a
// host and of an island are ranges. Hosts are numbered the same way over all islands.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shardway::topology {

// How many of everything; the same everywhere.
struct Shape {
  int islands = 1;
  int hosts = 1;    // per island
  int devices = 8;  // per host

  int num_hosts() const { return islands * hosts; }
  int num_devices() const { return islands * hosts * devices; }
  std::string ToString() const;  // "2 islands x 1 host x 4 devices"
  friend bool operator==(const Shape&, const Shape&) = default;
};

struct Device {
  int id = 0;  // global
  int island = 0;
  int host = 0;             // within the island
  int local = 0;            // within the host
  std::vector<int> coords;  // place on the island's interconnect: (device, host)
};

// Immutable, cheap to copy: everything follows from the shape.
class Topology {
 public:
  static constexpr int kMaxHosts = 4096;
  static constexpr int kMaxDevices = 1 << 16;

  // INVALID_ARGUMENT for a shape with nothing in it or beyond the limits above.
  static absl::StatusOr<Topology> Create(const Shape& shape);

  const Shape& shape() const { return shape_; }
  int num_hosts() const { return shape_.num_hosts(); }
  int num_devices() const { return shape_.num_devices(); }

  bool HasDevice(int id) const { return id >= 0 && id < num_devices(); }
  // For a device that exists:
  int HostOf(int device) const { return device / shape_.devices; }
  int IslandOf(int device) const { return HostOf(device) / shape_.hosts; }
  Device DeviceAt(int id) const;

  std::vector<int> DevicesOfHost(int host) const;
  std::vector<int> HostsOfDevices() const;  // by global device id
  // "host 1 of island 0 (devices 4-7)", for errors.
  std::string DescribeHost(int host) const;

 private:
  explicit Topology(const Shape& shape) : shape_(shape) {}
  Shape shape_;
};

}  // namespace shardway::topology
