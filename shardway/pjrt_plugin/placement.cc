#include "shardway/pjrt_plugin/placement.h"

#include <utility>

#include "shardway/pjrt_plugin/device.h"

namespace shardway::pjrt_plugin {

const Placement* PlacementTable::Intern(absl::Span<PJRT_Memory* const> memories) {
  MutexLock lock(mutex_);
  return InternLocked(memories);
}

const Placement* PlacementTable::InternLocked(absl::Span<PJRT_Memory* const> memories) {
  std::vector<PJRT_Memory*> key(memories.begin(), memories.end());
  if (const auto known = placements_.find(key); known != placements_.end()) {
    return known->second.get();
  }
  auto placement = std::make_unique<Placement>();
  placement->memories = key;
  std::vector<PJRT_Memory*> defaults;
  for (const PJRT_Memory* memory : memories) {
    placement->devices.push_back(memory->device->description.id);
    defaults.push_back(memory->device->memories.front());
  }
  placement->ordering = defaults == key ? placement.get() : InternLocked(defaults);
  return (placements_[std::move(key)] = std::move(placement)).get();
}

}  // namespace shardway::pjrt_plugin
