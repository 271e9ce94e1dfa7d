// A sharded array as this host sees it: the shards that live on its devices.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "shardway/store/shard.h"

namespace shardway::store {

// Immutable once it is in the store (its shards are not); thread-safe then.
class Array {
 public:
  struct Local {
    uint32_t index;  // the shard's number in the whole array
    std::shared_ptr<Shard> shard;
  };

  Array() = default;
  // An array of which nothing exists anywhere, whatever the shard that is asked for.
  explicit Array(absl::Status poison) : poison_(std::move(poison)) {}

  void Add(uint32_t index, std::shared_ptr<Shard> shard) {
    locals_.push_back({index, std::move(shard)});
  }
  void Reserve(size_t count) { locals_.reserve(count); }

  // The shard on that device (the first, should it have several); null: none here.
  const std::shared_ptr<Shard>* OnDevice(int device) const {
    // Usually every device of the host has one, in order.
    const size_t guess = static_cast<size_t>(device);
    if (guess < locals_.size() && locals_[guess].shard->device() == device) {
      return &locals_[guess].shard;
    }
    for (const Local& local : locals_) {
      if (local.shard->device() == device) return &local.shard;
    }
    return nullptr;
  }
  // The shard with that number; null: not here.
  const std::shared_ptr<Shard>* WithIndex(uint32_t index) const {
    for (const Local& local : locals_) {
      if (local.index == index) return &local.shard;
    }
    return nullptr;
  }

  const absl::Status& poison() const { return poison_; }
  const absl::InlinedVector<Local, 2>& locals() const { return locals_; }

 private:
  absl::Status poison_;
  absl::InlinedVector<Local, 2> locals_;
};

}  // namespace shardway::store
