// Where the shards of an array are: an ordered list of memories. Interned, so that "the same
// devices in the same order" is one pointer comparison on the way of every call.
#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "pjrt_c_api.h"
#include "shardway/base/mutex.h"

namespace shardway::pjrt_plugin {

// Two placements on the same devices in the same order have the same `ordering`.
struct Placement {
  std::vector<PJRT_Memory*> memories;  // shard i is in memories[i]
  std::vector<int> devices;            // … of device devices[i] (global ids)
  const Placement* ordering;           // the one with the devices' default memories
};

// Thread-safe. Placements live as long as the table: a program's meshes are few.
class PlacementTable {
 public:
  const Placement* Intern(absl::Span<PJRT_Memory* const> memories);

 private:
  const Placement* InternLocked(absl::Span<PJRT_Memory* const> memories) SHARDWAY_REQUIRES(mutex_);

  Mutex mutex_;
  absl::flat_hash_map<std::vector<PJRT_Memory*>, std::unique_ptr<const Placement>> placements_
      SHARDWAY_GUARDED_BY(mutex_);
};

}  // namespace shardway::pjrt_plugin
