// What other hosts have sent for one slot. A host that completed step k may already send step k +
// 1, never k + 2 (that needs our k + 1): two sets of arrivals, by the step's parity, are enough. A
// large all-reduce has a second round, in which hosts exchange the shares that they have combined.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "shardway/comm/program_comm.h"

namespace shardway::comm {

inline constexpr int kMaxRounds = 2;

struct RemoteArrival {
  std::atomic<bool> present{false};
  const char* data = nullptr;  // in shared memory, or in `inline_data`
  uint64_t block = 0;          // to acknowledge when it has been read; 0: none, or done
};

class RemoteSlot {
 public:
  RemoteSlot(const SitePlan& site, const GroupPlan& group);

  // One set of arrivals: of one step and round, by index into GroupPlan::hosts.
  struct Set {
    // Hosts that have not arrived, this one included; who takes it to zero carries on.
    std::atomic<int> missing{0};
    std::unique_ptr<RemoteArrival[]> arrivals;
  };
  Set& set(uint32_t step, int round) { return sets_[step & 1][round]; }
  // Where the payload of a small message of round 0 is kept.
  char* inline_data(uint32_t step, int host_index) {
    return inline_data_.data() +
           (static_cast<int64_t>(step & 1) * hosts_ + host_index) * inline_bytes_;
  }
  // What a host's message of round 0 carries, by index into GroupPlan::hosts; and ours.
  int64_t payload_bytes(int host_index) const { return payload_bytes_[host_index]; }
  int64_t own_bytes() const { return own_bytes_; }

  // Makes the sets of `step` ready for step + 2. By who completes the step, before anybody can
  // know.
  void Renew(uint32_t step);
  // Makes everything ready for a new launch; false when something was left over.
  bool Reset();

  // The block of this host's own combined share of a large all-reduce, between its two rounds.
  uint64_t share_block = 0;
  // The round that is being waited for; set by who has claimed the slot.
  int round() const { return round_.load(std::memory_order_relaxed); }
  void set_round(int round) { round_.store(round, std::memory_order_relaxed); }

 private:
  void Renew(Set& set);

  const int hosts_;
  const std::vector<int64_t> payload_bytes_;
  const int64_t own_bytes_;
  const int64_t inline_bytes_;  // the most that is kept of one host
  std::atomic<int> round_{0};
  Set sets_[2][kMaxRounds];
  std::vector<char> inline_data_;
};

}  // namespace shardway::comm
