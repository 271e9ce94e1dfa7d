#include "shardway/scheduler/memory_budget.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace shardway::scheduler {

void MemoryBudget::Charge(const topology::Slice& slice, int64_t bytes) {
  if (slice.index >= static_cast<int>(usage_.size())) {
    usage_.resize(slice.index + 1);
  }
  usage_[slice.index].slice = &slice;
  usage_[slice.index].bytes += bytes;
  total_ += bytes;
}

bool MemoryBudget::Fits(const topology::Slice& slice, int64_t bytes) const {
  if (bytes <= 0 || total_ + bytes <= budget_) {
    return true;
  }
  return bytes <= budget_ && Used(slice) + bytes <= budget_;
}

int64_t MemoryBudget::UsedOn(int device) const {
  int64_t used = 0;
  for (const Usage& usage : usage_) {
    if (usage.bytes != 0 && std::find(usage.slice->devices.begin(), usage.slice->devices.end(),
                                      device) != usage.slice->devices.end()) {
      used += usage.bytes;
    }
  }
  return used;
}

int64_t MemoryBudget::Used(const topology::Slice& slice) const {
  absl::flat_hash_map<int, int64_t> by_device;
  for (int device : slice.devices) {
    by_device.emplace(device, 0);
  }
  for (const Usage& usage : usage_) {
    if (usage.bytes == 0) {
      continue;
    }
    for (int device : usage.slice->devices) {
      if (auto it = by_device.find(device); it != by_device.end()) {
        it->second += usage.bytes;
      }
    }
  }
  int64_t fullest = 0;
  for (const auto& [device, bytes] : by_device) {
    fullest = std::max(fullest, bytes);
  }
  return fullest;
}

}  // namespace shardway::scheduler
