// A set of hosts, small as long as the cluster is.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace shardway::controller {

class HostSet {
 public:
  HostSet() = default;
  explicit HostSet(const std::vector<int>& hosts) {
    for (int host : hosts) {
      const size_t word = static_cast<size_t>(host) / 64;
      if (word >= words_.size()) {
        words_.resize(word + 1);
      }
      words_[word] |= uint64_t{1} << (host % 64);
    }
    size_ = static_cast<int>(hosts.size());
  }

  bool Contains(int host) const {
    const size_t word = static_cast<size_t>(host) / 64;
    return word < words_.size() && (words_[word] >> (host % 64) & 1) != 0;
  }
  // False when it was not there.
  bool Remove(int host) {
    if (!Contains(host)) {
      return false;
    }
    words_[host / 64] &= ~(uint64_t{1} << (host % 64));
    --size_;
    return true;
  }
  bool empty() const { return size_ == 0; }

 private:
  absl::InlinedVector<uint64_t, 1> words_;
  int size_ = 0;
};

}  // namespace shardway::controller
