// How much device memory a session's live arrays take, against its budget per device.
//
// Arrays are charged by slice (every device of a slice holds the same number of bytes), so a charge
// costs the same whatever the number of devices. Only when the sum over all slices exceeds the
// budget is the fullest device worked out.
#pragma once

#include <cstdint>
#include <vector>

#include "shardway/topology/slice.h"

namespace shardway::scheduler {

// Not thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(int64_t bytes_per_device) : budget_(bytes_per_device) {}

  int64_t budget() const { return budget_; }

  // `bytes` per device; may be negative (a run whose donated inputs are larger than its results).
  void Charge(const topology::Slice& slice, int64_t bytes);
  void Release(const topology::Slice& slice, int64_t bytes) { Charge(slice, -bytes); }

  // Whether `bytes` more on each device of `slice` stay within the budget.
  bool Fits(const topology::Slice& slice, int64_t bytes) const;
  // Bytes live on a device.
  int64_t UsedOn(int device) const;
  // Bytes live on the fullest device of `slice`.
  int64_t Used(const topology::Slice& slice) const;

 private:
  const int64_t budget_;
  int64_t total_ = 0;  // over all slices: at least what is on any one device
  struct Usage {
    const topology::Slice* slice = nullptr;
    int64_t bytes = 0;
  };
  std::vector<Usage> usage_;  // by slice index
};

}  // namespace shardway::scheduler
