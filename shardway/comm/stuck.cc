#include "shardway/comm/stuck.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "shardway/comm/remote_slot.h"

namespace shardway::comm {
namespace {

// Long lists are cut: the first few say where to look.
constexpr int kShown = 8;

bool SomebodyWaits(const Slot& slot, uint64_t word) {
  if ((word & Slot::kAborted) != 0) return false;
  const uint64_t count = Slot::Count(word);
  return (count > 0 && count < static_cast<uint64_t>(slot.num_local())) ||
         (word & Slot::kParked) != 0;
}

}  // namespace

std::string DescribeWaiting(Slot& slot, int32_t launch, const DeviceBoard& board) {
  const uint32_t step = Slot::Step(slot.word.load(std::memory_order_acquire));
  const GroupPlan& group = *slot.group;
  std::vector<int> missing;
  for (int local = 0; local < group.num_local(); ++local) {
    if (slot.entries[local].arrivals.load(std::memory_order_relaxed) <= step) {
      missing.push_back(group.local[local]);
    }
  }
  if (slot.remote != nullptr && missing.empty()) {
    RemoteSlot::Set& set = slot.remote->set(step, slot.remote->round());
    for (size_t host = 0; host < group.hosts.size(); ++host) {
      if (set.arrivals[host].present.load(std::memory_order_acquire)) continue;
      missing.insert(missing.end(), group.members_of_host[host].begin(),
                     group.members_of_host[host].end());
    }
  }
  std::string text =
      absl::StrCat(slot.site->spec.ToString(), " at ", slot.site->spec.location, " (site ",
                   slot.site->spec.site, ", step ", step, "): waiting for ", missing.size(), " of ",
                   group.members.size(), " devices:");
  for (size_t i = 0; i < missing.size() && i < kShown; ++i) {
    const Member& member = group.members[missing[i]];
    absl::StrAppend(&text, i == 0 ? " " : ", ", "device ", member.global, " on host ", member.host);
    if (!board.HasStarted(member.global, launch)) {
      absl::StrAppend(&text, " (which has not started the run)");
    } else if (board.IsOutside(member.global)) {
      absl::StrAppend(&text, " (which waits for a host callback)");
    }
  }
  return missing.size() > kShown ? absl::StrCat(text, ", …") : text;
}

absl::Status StuckFinder::Look(Launch& launch, const DeviceBoard& board, TimePoint now,
                               const Limits& limits) {
  if (!board.AllInside(launch.program().devices(), launch.id())) {
    all_inside_since_ = TimePoint{};
  } else if (all_inside_since_ == TimePoint{}) {
    all_inside_since_ = now;
  }
  const Duration inside =
      all_inside_since_ == TimePoint{} ? Duration::zero() : now - all_inside_since_;
  const absl::Span<Slot> slots = launch.slots();
  seen_.resize(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    const uint64_t word = slots[i].word.load(std::memory_order_acquire);
    if (word != seen_[i].word || seen_[i].since == TimePoint{}) {
      seen_[i] = {word, now};
      continue;
    }
    const Duration waited = now - seen_[i].since;
    const bool late = std::min(waited, inside) >= limits.timeout || waited >= limits.start_timeout;
    if (late && SomebodyWaits(slots[i], word)) {
      return absl::DeadlineExceededError(absl::StrCat(
          DescribeWaiting(slots[i], launch.id(), board), " for ",
          std::chrono::duration<double>(waited).count(), " s in launch ", launch.id()));
    }
  }
  return absl::OkStatus();
}

}  // namespace shardway::comm
