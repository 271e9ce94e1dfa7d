#include "shardway/comm/launch.h"

#include <utility>

#include "absl/container/inlined_vector.h"
#include "shardway/comm/remote_slot.h"

namespace shardway::comm {

Launch::Launch(const ProgramComm& program)
    : num_slots_(program.num_slots()),
      slots_(std::make_unique<Slot[]>(program.num_slots())),
      entries_(std::make_unique<Entry[]>(program.num_entries())),
      num_entries_(program.num_entries()) {
  size_t long_buffers = 0;
  const auto buffers_of = [](const SitePlan& site) {
    return site.spec.operands.size() + site.spec.results.size();
  };
  for (const SitePlan& site : program.sites()) {
    if (buffers_of(site) <= std::size(Entry{}.inline_buffers)) continue;
    for (const GroupPlan& group : site.groups->groups) {
      long_buffers += group.num_local() * buffers_of(site);
    }
  }
  long_buffers_.resize(long_buffers);
  void** next_long = long_buffers_.data();
  for (const SitePlan& site : program.sites()) {
    Slot* slot = &slots_[site.first_slot];
    Entry* entry = &entries_[site.first_entry];
    for (const GroupPlan& group : site.groups->groups) {
      slot->site = &site;
      slot->group = &group;
      slot->entries = entry;
      if (!group.hosts.empty()) slot->remote = std::make_unique<RemoteSlot>(site, group);
      for (int i = 0; i < group.num_local(); ++i, ++entry) {
        entry->buffers = entry->inline_buffers;
        if (buffers_of(site) > std::size(entry->inline_buffers)) {
          entry->buffers = next_long;
          next_long += buffers_of(site);
        }
      }
      ++slot;
    }
  }
}

Launch::~Launch() = default;

void Launch::Open(int32_t id, std::shared_ptr<const ProgramComm> program) {
  id_ = id;
  program_ = std::move(program);
}

bool Launch::Close() {
  // A program that failed on one device leaves slots half full: such a state is not used again.
  bool clean = !aborted();
  for (int i = 0; i < num_slots_ && clean; ++i) {
    Slot& slot = slots_[i];
    clean = (slot.word.load(std::memory_order_acquire) & (Slot::kCountMask | Slot::kParked)) == 0 &&
            (slot.remote == nullptr || slot.remote->Reset());
    slot.word.store(0, std::memory_order_relaxed);
  }
  for (int i = 0; i < num_entries_; ++i) entries_[i].arrivals.store(0, std::memory_order_relaxed);
  if (clean) program_.reset();  // an idle state belongs to the program: it must not own it
  return clean;
}

absl::Status Launch::cause() const {
  MutexLock lock(mutex_);
  return cause_;
}

void Launch::Abort(const absl::Status& cause) {
  {
    MutexLock lock(mutex_);
    if (aborted_.load(std::memory_order_relaxed)) return;
    cause_ = cause;
    aborted_.store(true, std::memory_order_seq_cst);
  }
  for (Slot& slot : slots()) FailSlot(slot);
}

void Launch::FailSlot(Slot& slot) {
  uint64_t word = slot.word.load(std::memory_order_acquire);
  do {
    const bool claimed =
        Slot::Count(word) >= static_cast<uint64_t>(slot.num_local()) && (word & Slot::kParked) == 0;
    // Who has claimed it completes it; what arrives afterwards finds the launch aborted.
    if ((word & Slot::kAborted) != 0 || claimed) return;
  } while (
      !slot.word.compare_exchange_weak(word, word | Slot::kAborted, std::memory_order_acq_rel));

  const absl::Status status = cause();
  absl::InlinedVector<std::pair<Runtime*, uintptr_t>, 16> suspended;
  for (int i = 0; i < slot.num_local(); ++i) {
    Entry& entry = slot.entries[i];
    const uintptr_t waiter = entry.waiter.exchange(kFailed, std::memory_order_acq_rel);
    if (IsToken(waiter)) suspended.emplace_back(entry.runtime, waiter);
  }
  for (auto [runtime, token] : suspended) runtime->Resume(token, status);
}

}  // namespace shardway::comm
