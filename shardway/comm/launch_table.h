// Launches by id. Find is lock-free: it is on the way of every collective.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "shardway/base/mutex.h"
#include "shardway/comm/run_id.h"

namespace shardway::comm {

class Launch;

// Thread-safe. Who finds a launch must know by other means that it is not removed meanwhile (a
// handler runs between its launch's begin and end).
class LaunchTable {
 public:
  // `id` is positive; no launch of its key is in the table.
  void Insert(int32_t id, Launch* launch);
  void Remove(int32_t id);
  // Null: no such launch is open.
  Launch* Find(int32_t id) const {
    return FindIf(id, [id](int32_t other) { return other == id; });
  }
  // The same by LaunchKeyOf(id).
  Launch* FindByKey(int32_t key) const {
    return FindIf(key, [key](int32_t other) { return other != 0 && LaunchKeyOf(other) == key; });
  }

 private:
  static constexpr int kBuckets = 512;
  static constexpr int kWays = 4;
  struct Cell {
    std::atomic<int32_t> id{0};
    std::atomic<Launch*> launch{nullptr};
  };
  // A launch's bucket follows from its key alone.
  static_assert(kLaunchKeys % kBuckets == 0);
  const Cell* BucketOf(int32_t id) const { return cells_ + (id & (kBuckets - 1)) * kWays; }
  Cell* BucketOf(int32_t id) { return cells_ + (id & (kBuckets - 1)) * kWays; }
  template <class Same>
  Launch* FindIf(int32_t id_or_key, Same same) const {
    const Cell* bucket = BucketOf(id_or_key);
    for (int i = 0; i < kWays; ++i) {
      if (same(bucket[i].id.load(std::memory_order_acquire))) {
        return bucket[i].launch.load(std::memory_order_relaxed);
      }
    }
    if (overflowed_.load(std::memory_order_acquire) == 0) return nullptr;
    MutexLock lock(mutex_);
    auto it = overflow_.find(LaunchKeyOf(id_or_key));
    return it == overflow_.end() || !same(it->second.first) ? nullptr : it->second.second;
  }

  alignas(64) Cell cells_[kBuckets * kWays];
  std::atomic<int> overflowed_{0};
  mutable Mutex mutex_;  // of writers, and of the launches that found their bucket full
  // By key: a launch and its id.
  absl::flat_hash_map<int32_t, std::pair<int32_t, Launch*>> overflow_ SHARDWAY_GUARDED_BY(mutex_);
};

}  // namespace shardway::comm
