// Launches by id. Find is lock-free: it is on the way of every collective.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "shardway/base/mutex.h"

namespace shardway::comm {

class Launch;

// Thread-safe. Who finds a launch must know by other means that it is not removed meanwhile (a
// handler runs between its launch's begin and end).
class LaunchTable {
 public:
  // `id` is positive and not in the table.
  void Insert(int32_t id, Launch* launch);
  void Remove(int32_t id);
  // Null: no such launch is open.
  Launch* Find(int32_t id) const {
    const Cell* bucket = BucketOf(id);
    for (int i = 0; i < kWays; ++i) {
      if (bucket[i].id.load(std::memory_order_acquire) == id) {
        return bucket[i].launch.load(std::memory_order_relaxed);
      }
    }
    return overflowed_.load(std::memory_order_acquire) == 0 ? nullptr : FindOverflow(id);
  }

 private:
  static constexpr int kBuckets = 512;
  static constexpr int kWays = 4;
  struct Cell {
    std::atomic<int32_t> id{0};
    std::atomic<Launch*> launch{nullptr};
  };
  const Cell* BucketOf(int32_t id) const { return cells_ + (id & (kBuckets - 1)) * kWays; }
  Cell* BucketOf(int32_t id) { return cells_ + (id & (kBuckets - 1)) * kWays; }
  Launch* FindOverflow(int32_t id) const;

  alignas(64) Cell cells_[kBuckets * kWays];
  std::atomic<int> overflowed_{0};
  mutable Mutex mutex_;  // of writers, and of the launches that found their bucket full
  absl::flat_hash_map<int32_t, Launch*> overflow_ SHARDWAY_GUARDED_BY(mutex_);
};

}  // namespace shardway::comm
