#include "shardway/comm/remote_slot.h"

#include <algorithm>

#include "shardway/comm/payload.h"

namespace shardway::comm {

RemoteSlot::RemoteSlot(const SitePlan& site, const GroupPlan& group)
    : hosts_(static_cast<int>(group.hosts.size())), inline_bytes_([&] {
        int64_t most = 0;
        for (const std::vector<int>& members : group.members_of_host) {
          const int64_t bytes = PayloadBytes(site, group, members);
          if (bytes <= kMaxInlineBytes) most = std::max(most, bytes);
        }
        return most;
      }()) {
  for (auto& by_parity : sets_) {
    for (Set& set : by_parity) {
      set.arrivals = std::make_unique<RemoteArrival[]>(hosts_);
      Renew(set);
    }
  }
  inline_data_.resize(2 * hosts_ * inline_bytes_);
}

void RemoteSlot::Renew(Set& set) {
  for (int i = 0; i < hosts_; ++i) set.arrivals[i].present.store(false, std::memory_order_relaxed);
  set.missing.store(hosts_ + 1, std::memory_order_release);
}

void RemoteSlot::Renew(uint32_t step) {
  for (Set& set : sets_[step & 1]) Renew(set);
}

bool RemoteSlot::Reset() {
  for (auto& by_parity : sets_) {
    for (Set& set : by_parity) {
      if (set.missing.load(std::memory_order_acquire) != hosts_ + 1) return false;
    }
  }
  set_round(0);
  return true;
}

}  // namespace shardway::comm
