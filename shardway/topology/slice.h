// A slice: an ordered list of devices that an array or a program lives on. Interned, so that
// "the same devices in the same order" is one pointer comparison and what follows from the list
// (its hosts) is worked out once, not on every run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardway/topology/topology.h"

namespace shardway::topology {

struct Slice {
  int index = 0;  // dense from 0 in its table
  // Logical position → global device id. A device may be there twice, in an array that one buffer
  // is copied from to several devices; never in a program's (wire::Validate sees to it).
  std::vector<int> devices;
  std::vector<int> hosts;  // global host numbers, ascending, without repeats
};

// All slices seen so far. They live as long as the table. Not thread-safe.
class SliceTable {
 public:
  static constexpr int kMaxSlices = 1 << 16;

  explicit SliceTable(const Topology& topology) : topology_(topology) {}

  // INVALID_ARGUMENT for an empty list or a device that is not there; RESOURCE_EXHAUSTED for more
  // different slices than a table holds.
  absl::StatusOr<const Slice*> Intern(absl::Span<const int> devices);

  int size() const { return static_cast<int>(slices_.size()); }

 private:
  const Topology topology_;
  std::vector<std::unique_ptr<Slice>> slices_;
  absl::flat_hash_map<std::vector<int>, const Slice*> by_devices_;
};

}  // namespace shardway::topology
