#include "shardway/comm/rendezvous.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/comm/exchange.h"
#include "shardway/comm/float_mode.h"
#include "shardway/comm/release.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace shardway::comm {
namespace {

constexpr std::chrono::microseconds kSpinTime{8};
// Between hosts, after a failure: as long as it takes a peer that has given up spinning to be woken
// by its poller. Otherwise two hosts that have both given up would each find the other too slow.
constexpr std::chrono::microseconds kProbeTime{60};
constexpr int kFailuresBeforeSkipping = 4;
constexpr int kMostSkipped = 256;

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void GatherLocal(const Slot& slot, Work* work) {
  work->site = slot.site;
  work->group = slot.group;
  const size_t operands = slot.site->spec.operands.size();
  const size_t results = slot.site->spec.results.size();
  work->operands.assign(slot.group->members.size() * operands, nullptr);
  work->results.resize(slot.num_local() * results);
  for (int local = 0; local < slot.num_local(); ++local) {
    void* const* buffers = slot.entries[local].buffers;
    const size_t at = slot.group->local[local] * operands;
    for (size_t i = 0; i < operands; ++i) {
      work->operands[at + i] = static_cast<const char*>(buffers[i]);
    }
    for (size_t i = 0; i < results; ++i) {
      work->results[local * results + i] = static_cast<char*>(buffers[operands + i]);
    }
  }
}

Rendezvous::Rendezvous(int num_ordinals, bool spin, WorkPool* pool)
    : spin_(spin), pool_(*pool), spin_history_(num_ordinals) {}

Rendezvous::OpenSite Rendezvous::FindSite(int32_t launch_key, int32_t site) const {
  Launch* found = launches_.FindByKey(launch_key);
  if (found == nullptr) return {};
  const absl::Span<const SitePlan> sites = found->program().sites();
  const bool known = site >= 0 && site < static_cast<int>(sites.size());
  return {found->id(), known ? &sites[site] : nullptr};
}

absl::StatusOr<Outcome> Rendezvous::File(const Call& call) {
  Launch* launch = launches_.Find(call.launch);
  if (launch == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("collective at site ", call.site,
                                                      " on device ", call.ordinal, ": launch ",
                                                      call.launch, " is not open on this host"));
  }
  const absl::Span<const SitePlan> sites = launch->program().sites();
  if (call.site < 0 || call.site >= static_cast<int>(sites.size()) || call.ordinal < 0 ||
      call.ordinal >= static_cast<int>(spin_history_.size())) {
    return absl::InvalidArgumentError(absl::StrCat("collective at site ", call.site, " on device ",
                                                   call.ordinal, " is not one of its program's ",
                                                   sites.size(), " sites"));
  }
  const SitePlan& site = sites[call.site];
  const GroupsPlan::Place place = site.groups->place[call.ordinal];
  if (place.group < 0) {
    RunAlone(site, call.operands.data(), call.results.data());
    return Outcome::kDone;
  }
  Slot& slot = launch->slots()[site.first_slot + place.group];
  Entry& entry = slot.entries[place.local];
  // Its last arrival here is complete, or two calls share the site: then the entry is in use.
  const uint32_t step = entry.arrivals.load(std::memory_order_relaxed);
  if (Slot::Step(slot.word.load(std::memory_order_acquire)) != step) {
    launch->Abort(absl::InternalError(absl::StrCat(
        "device ", call.ordinal, " arrived twice at one step of ", site.spec.ToString(), " at ",
        site.spec.location, " (site ", call.site, "): two calls share a call site")));
    return launch->cause();
  }
  std::copy(call.results.begin(), call.results.end(),
            std::copy(call.operands.begin(), call.operands.end(), entry.buffers));
  entry.runtime = call.runtime;
  entry.waiter.store(kSpinning, std::memory_order_relaxed);
  entry.arrivals.store(step + 1, std::memory_order_relaxed);

  const uint64_t before = slot.word.fetch_add(1, std::memory_order_acq_rel);
  if ((before & Slot::kAborted) != 0) return launch->cause();
  if (Slot::Count(before) + 1 == static_cast<uint64_t>(slot.num_local())) {
    const Scheduler scheduler{call.runtime, call.context};
    if (slot.remote == nullptr) {
      Complete(slot, scheduler);
    } else {
      exchange_->Arrived(*launch, slot, scheduler);
    }
  } else if (launch->aborted()) {
    launch->FailSlot(slot);
  }
  return AwaitRelease(call, *launch, slot, entry);
}

void Rendezvous::Complete(Slot& slot, Scheduler scheduler) {
  const ScopedXlaFloatMode float_mode;
  Work work;
  GatherLocal(slot, &work);
  const int pieces = NumPieces(work);
  if (pieces <= 1) {
    RunPiece(work, 0, 1);
    return Release(slot, scheduler, pool_);
  }
  auto shared = std::make_shared<Work>(std::move(work));
  // The thread that finishes last may be one of the pool's: no call is in progress on it.
  pool_.Share(
      pieces, [shared, pieces](int piece) { RunPiece(*shared, piece, pieces); },
      [this, &slot] { Release(slot, {}, pool_); });
}

absl::StatusOr<Outcome> Rendezvous::AwaitRelease(const Call& call, Launch& launch, Slot& slot,
                                                 Entry& entry) {
  uintptr_t waiter = entry.waiter.load(std::memory_order_acquire);
  if (waiter == kSpinning && (!spin_ || !Spin(call, slot, entry))) {
    SHARDWAY_ASSIGN_OR_RETURN(const uintptr_t token, call.runtime->Suspend(call.context));
    if (entry.waiter.compare_exchange_strong(waiter, token, std::memory_order_acq_rel,
                                             std::memory_order_acquire)) {
      return Outcome::kPending;
    }
    // Released meanwhile; the token was made, so it is what continues the device.
    call.runtime->Resume(token, waiter == kDone ? absl::OkStatus() : launch.cause());
    return Outcome::kPending;
  }
  if (entry.waiter.load(std::memory_order_acquire) == kDone) return Outcome::kDone;
  return launch.cause();
}

bool Rendezvous::SpinFor(std::chrono::microseconds time, const Call& call, bool remote,
                         const Entry& entry) {
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    for (int i = 0; i < 16; ++i) {
      if (entry.waiter.load(std::memory_order_acquire) != kSpinning) return true;
      Pause();
      if (remote) exchange_->Poll({call.runtime, call.context});
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// A short spin saves two context switches where every device has a core. Where it keeps failing
// (a peer computes, or somebody else uses the core) it is soon left out.
bool Rendezvous::Spin(const Call& call, const Slot& slot, const Entry& entry) {
  SpinHistory& history = spin_history_[call.ordinal];
  if (const int skip = history.skip.load(std::memory_order_relaxed); skip > 0) {
    history.skip.store(skip - 1, std::memory_order_relaxed);
    return false;
  }
  const bool remote = slot.remote != nullptr;
  const bool probe = remote && history.failures.load(std::memory_order_relaxed) != 0;
  if (remote) exchange_->StartPolling();
  const bool released = SpinFor(probe ? kProbeTime : kSpinTime, call, remote, entry);
  if (remote) exchange_->StopPolling({call.runtime, call.context});
  if (released) {
    history.failures.store(0, std::memory_order_relaxed);
    return true;
  }
  const int failures = history.failures.load(std::memory_order_relaxed) + 1;
  history.failures.store(failures, std::memory_order_relaxed);
  if (failures >= kFailuresBeforeSkipping) {
    history.skip.store(std::min(kMostSkipped, 1 << std::min(failures, 16)),
                       std::memory_order_relaxed);
  }
  return false;
}

}  // namespace shardway::comm
