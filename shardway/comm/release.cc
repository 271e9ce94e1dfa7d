#include "shardway/comm/release.h"

#include <memory>

#include "absl/container/inlined_vector.h"
#include "shardway/comm/float_mode.h"
#include "shardway/comm/remote_slot.h"

namespace shardway::comm {
namespace {

struct Suspended {
  Runtime* runtime;
  uintptr_t token;
};

void ResumeAndDelete(void* data) {
  std::unique_ptr<Suspended> suspended(static_cast<Suspended*>(data));
  const ScopedXlaFloatMode float_mode;
  suspended->runtime->Resume(suspended->token, absl::OkStatus());
}

}  // namespace

void Release(Slot& slot, Scheduler scheduler, WorkPool& pool) {
  const bool continue_inline = slot.site->continue_inline;
  const uint32_t step = Slot::Step(slot.word.load(std::memory_order_relaxed));
  if (slot.remote != nullptr) {
    slot.remote->set_round(0);
    slot.remote->Renew(step);
  }
  slot.word.store(Slot::WordOfStep(step + 1), std::memory_order_release);

  absl::InlinedVector<Suspended, 16> suspended;
  for (int i = 0, n = slot.num_local(); i < n; ++i) {
    Entry& entry = slot.entries[i];
    const uintptr_t waiter = entry.waiter.exchange(kDone, std::memory_order_acq_rel);
    if (IsToken(waiter)) suspended.push_back({entry.runtime, waiter});
  }
  for (const Suspended& one : suspended) {
    if (continue_inline) {
      one.runtime->Resume(one.token, absl::OkStatus());
      continue;
    }
    auto* copy = new Suspended(one);
    if (scheduler.runtime == nullptr ||
        !scheduler.runtime->Schedule(scheduler.context, ResumeAndDelete, copy)) {
      pool.Schedule([copy] { ResumeAndDelete(copy); });
    }
  }
}

}  // namespace shardway::comm
