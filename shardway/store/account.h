// How much device memory one session holds on this host, by device.
//
// Counted from the moment a shard's contents exist until they are gone: freed by the last holder,
// or donated. A shard that two arrays share counts once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardway::store {

// Thread-safe. Devices write to cache lines of their own.
class Account {
 public:
  explicit Account(int num_devices) : slots_(num_devices) {}

  void Add(int device, int64_t bytes) {
    slots_[device].bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  int64_t bytes(int device) const { return slots_[device].bytes.load(std::memory_order_relaxed); }
  int64_t total_bytes() const {
    int64_t total = 0;
    for (const Slot& slot : slots_) total += slot.bytes.load(std::memory_order_relaxed);
    return total;
  }

 private:
  struct alignas(64) Slot {
    std::atomic<int64_t> bytes{0};
  };
  std::vector<Slot> slots_;
};

}  // namespace shardway::store
