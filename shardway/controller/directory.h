// The arrays of one session, by the ids that its client chose.
//
// An entry's life:
//   waiting   its maker waits in the scheduler's queue
//   made      its maker was sent to the hosts (or failed: then it is `poison`ed); the hosts know it
//   freed     the client deleted it. It stays while waiting operations or reads name it (`queued`);
//             then the hosts are told. It stays further, a ghost that only accounts for memory,
//             while assembled arrays share its buffers (`holders`).
// The memory it is charged for is given back when the last operation that was sent with it has
// ended.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "shardway/program/array_layout.h"

namespace shardway::controller {

struct Array {
  program::ArrayLayoutPtr layout;  // null: its maker failed before that was known
  absl::Status poison;
  uint64_t last_op = 0;  // the last operation sent that makes or uses it
  int64_t charged = 0;   // bytes per device
  int32_t queued = 0;    // waiting operations and reads that name it
  int32_t holders = 0;   // assembled arrays that share its memory
  bool made = false;
  bool sent = false;  // hosts know it
  bool freed = false;
  bool told = false;                             // hosts were told that it is freed
  bool donated = false;                          // given to an operation that consumes it
  std::unique_ptr<std::vector<uint64_t>> parts;  // assembled from these
};

class Directory {
 public:
  // Null when the id is taken. Pointers are valid until the next Add or Erase.
  Array* Add(uint64_t id) {
    auto [it, added] = arrays_.try_emplace(id);
    return added ? &it->second : nullptr;
  }
  Array* Find(uint64_t id) {
    auto it = arrays_.find(id);
    return it == arrays_.end() ? nullptr : &it->second;
  }
  void Erase(uint64_t id) { arrays_.erase(id); }
  size_t size() const { return arrays_.size(); }

  template <typename Function>
  void ForEach(Function function) {
    for (auto& [id, array] : arrays_) {
      function(id, array);
    }
  }

 private:
  absl::flat_hash_map<uint64_t, Array> arrays_;
};

}  // namespace shardway::controller
