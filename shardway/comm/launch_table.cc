#include "shardway/comm/launch_table.h"

namespace shardway::comm {

void LaunchTable::Insert(int32_t id, Launch* launch) {
  MutexLock lock(mutex_);
  Cell* bucket = BucketOf(id);
  for (int i = 0; i < kWays; ++i) {
    if (bucket[i].id.load(std::memory_order_relaxed) != 0) continue;
    bucket[i].launch.store(launch, std::memory_order_relaxed);
    bucket[i].id.store(id, std::memory_order_release);
    return;
  }
  overflow_[LaunchKeyOf(id)] = {id, launch};
  overflowed_.fetch_add(1, std::memory_order_release);
}

void LaunchTable::Remove(int32_t id) {
  MutexLock lock(mutex_);
  Cell* bucket = BucketOf(id);
  for (int i = 0; i < kWays; ++i) {
    if (bucket[i].id.load(std::memory_order_relaxed) != id) continue;
    bucket[i].id.store(0, std::memory_order_release);
    return;
  }
  if (overflow_.erase(LaunchKeyOf(id)) != 0) overflowed_.fetch_sub(1, std::memory_order_release);
}

}  // namespace shardway::comm
