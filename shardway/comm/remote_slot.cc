#include "shardway/comm/remote_slot.h"

#include <algorithm>

#include "shardway/comm/payload.h"

namespace shardway::comm {

namespace {

std::vector<int64_t> PayloadsOf(const SitePlan& site, const GroupPlan& group) {
  std::vector<int64_t> bytes;
  for (const std::vector<int>& members : group.members_of_host) {
    bytes.push_back(PayloadBytes(site, group, members));
  }
  return bytes;
}

int64_t MostInline(const std::vector<int64_t>& payloads) {
  int64_t most = 0;
  for (int64_t bytes : payloads) {
    if (bytes <= kMaxInlineBytes) most = std::max(most, bytes);
  }
  return most;
}

}  // namespace

RemoteSlot::RemoteSlot(const SitePlan& site, const GroupPlan& group)
    : hosts_(static_cast<int>(group.hosts.size())),
      payload_bytes_(PayloadsOf(site, group)),
      own_bytes_(PayloadBytes(site, group, group.local)),
      inline_bytes_(MostInline(payload_bytes_)) {
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
