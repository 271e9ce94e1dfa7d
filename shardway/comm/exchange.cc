#include "shardway/comm/exchange.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/comm/float_mode.h"
#include "shardway/comm/payload.h"
#include "shardway/comm/remote_slot.h"
#include "shardway/comm/rendezvous.h"
#include "shardway/comm/store_load_fence.h"

namespace shardway::comm {
namespace {

// A poller that has nothing to retry looks by itself this often, should a peer have died between
// its message and its ring.
constexpr int kSleepMilliseconds = 5000;
// With work that waits for room: it may fail for other reasons than a doorbell tells.
constexpr int kRetryMilliseconds = 50;
constexpr std::chrono::microseconds kLingerTime{40};
constexpr size_t kDroppedRemembered = 1024;

template <typename... Args>
absl::Status Protocol(const Slot& slot, int from, const Args&... args) {
  return absl::InternalError(absl::StrCat("host ", from, " sent a part of ",
                                          slot.site->spec.ToString(), " (site ",
                                          slot.site->spec.site, ") ", args...));
}

}  // namespace

Exchange::Exchange(std::unique_ptr<Transport> transport, WorkPool* pool, Launches launches,
                   bool linger)
    : transport_(std::move(transport)),
      pool_(*pool),
      launches_(std::move(launches)),
      transfers_(transport_.get()),
      linger_(linger),
      poller_([this] { Loop(); }) {}

Exchange::~Exchange() {
  stopping_.store(true, std::memory_order_release);
  transport_->RingSelf();
  poller_.join();
}

void Exchange::Loop() {
  const ScopedXlaFloatMode float_mode;
  while (!stopping_.load(std::memory_order_acquire)) {
    const bool worked = Poll({});
    RetryDeferred();
    transfers_.Wake();
    if (worked && linger_) Linger();
    transport_->Sleep(HasDeferred() ? kRetryMilliseconds : kSleepMilliseconds, stopping_);
  }
}

void Exchange::Linger() {
  StartPolling();
  auto end = std::chrono::steady_clock::now() + kLingerTime;
  while (std::chrono::steady_clock::now() < end) {
    ::sched_yield();
    if (Poll({})) end = std::chrono::steady_clock::now() + kLingerTime;
  }
  StopPolling({});
}

// --- receiving ---

bool Exchange::Poll(Scheduler scheduler) {
  if (!transport_->HasWork()) return false;
  ReadyList ready;
  Receive(&ready);
  Run(ready, scheduler);
  return true;
}

void Exchange::StopPolling(Scheduler scheduler) {
  transport_->StopPolling();
  StoreLoadFence();
  Poll(scheduler);  // what came without a ring
}

void Exchange::Receive(ReadyList* ready) {
  const bool flushed =
      transport_->Receive([&](int from, const MessageHead& head, const char* payload) {
        OnMessage(from, head, payload, ready);
      });
  for (Ready& one : *ready) one.ring |= flushed;
}

void Exchange::OnMessage(int from, const MessageHead& head, const char* payload, ReadyList* ready) {
  if (head.kind == MessageKind::kTransfer) return transfers_.Arrived(from, head, payload);
  if (head.kind != MessageKind::kOperands && head.kind != MessageKind::kAbort) return;
  std::shared_ptr<Launch> launch = launches_.find(head.launch);
  if (launch == nullptr) {
    MutexLock lock(early_mutex_);
    launch = launches_.find(head.launch);  // it may have begun meanwhile
    if (launch == nullptr) {
      const bool dropped =
          std::find(dropped_.begin(), dropped_.end(), head.launch) != dropped_.end();
      if (!dropped) {
        early_[head.launch].push_back(
            {from, head, head.block == 0 ? std::string(payload, head.bytes) : std::string(), {}});
      } else if (head.block != 0) {
        transport_->Acknowledge(from, head.block);
      }
      return;
    }
  }
  OnLaunchMessage(std::move(launch), from, head, payload, ready);
}

void Exchange::OnLaunchMessage(std::shared_ptr<Launch> launch, int from, const MessageHead& head,
                               const char* payload, ReadyList* ready) {
  if (head.kind == MessageKind::kAbort) {
    const int code = static_cast<int>(head.step);
    ready->push_back(
        {.launch = std::move(launch),
         .failure = absl::Status(static_cast<absl::StatusCode>(code >= 1 && code <= 16 ? code : 13),
                                 std::string(payload, head.bytes))});
    return;
  }
  Slot* complete = nullptr;
  absl::Status status;
  const bool aborted = launch->aborted();
  if (!aborted) status = Accept(*launch, from, head, payload, &complete);
  if ((aborted || !status.ok()) && head.block != 0) transport_->Acknowledge(from, head.block);
  if (!status.ok()) {
    ready->push_back({.launch = std::move(launch), .failure = std::move(status), .tell = true});
  } else if (complete != nullptr) {
    ready->push_back({.launch = std::move(launch),
                      .slot = complete,
                      .step = head.step,
                      .round = static_cast<int>(head.round)});
  }
}

// Puts a host's part into its slot. `*complete` is set when it was the last that was missing.
absl::Status Exchange::Accept(Launch& launch, int from, const MessageHead& head,
                              const char* payload, Slot** complete) {
  const absl::Span<const SitePlan> sites = launch.program().sites();
  if (head.site < 0 || head.site >= static_cast<int>(sites.size())) {
    return absl::InternalError(absl::StrCat("host ", from, " sent a part of site ", head.site,
                                            " in launch ", launch.id(), " of ", sites.size(),
                                            " sites: the hosts run different programs"));
  }
  const SitePlan& site = sites[head.site];
  const std::vector<int32_t>& groups = site.groups->group_of_logical;
  const int index =
      head.group >= 0 && head.group < static_cast<int64_t>(groups.size()) ? groups[head.group] : -1;
  if (index < 0) {
    return absl::InternalError(absl::StrCat("host ", from, " sent a part of group ", head.group,
                                            " of site ", head.site, ", which has no device here"));
  }
  Slot& slot = launch.slots()[site.first_slot + index];
  const GroupPlan& group = *slot.group;
  const auto host = std::lower_bound(group.hosts.begin(), group.hosts.end(), from);
  if (host == group.hosts.end() || *host != from) {
    return Protocol(slot, from, "in which it has no device");
  }
  const int host_index = static_cast<int>(host - group.hosts.begin());
  const uint32_t step = Slot::Step(slot.word.load(std::memory_order_acquire));
  if (head.step - step > 1 || head.round >= (IsTwoRound(site) ? 2u : 1u)) {
    return Protocol(slot, from, "for step ", head.step, " round ", head.round, "; here it is step ",
                    step);
  }
  const int participants = static_cast<int>(group.hosts.size()) + 1;
  const int64_t expected =
      head.round == 0
          ? slot.remote->payload_bytes(host_index)
          : ShareBytes(site, host_index + (from > transport_->host() ? 1 : 0), participants);
  if (static_cast<int64_t>(head.bytes) != expected ||
      (head.block == 0) != (expected <= kMaxInlineBytes && head.round == 0)) {
    return Protocol(slot, from, "of ", head.bytes, " bytes, not ", expected,
                    ": the hosts run different programs");
  }
  RemoteSlot::Set& set = slot.remote->set(head.step, static_cast<int>(head.round));
  RemoteArrival& arrival = set.arrivals[host_index];
  if (arrival.present.load(std::memory_order_relaxed)) {
    return Protocol(slot, from, "twice in step ", head.step);
  }
  arrival.block = head.block;
  if (head.block != 0) {
    arrival.data = payload;
  } else {
    char* copy = slot.remote->inline_data(head.step, host_index);
    if (expected > 0) std::memcpy(copy, payload, expected);
    arrival.data = copy;
  }
  arrival.present.store(true, std::memory_order_release);
  if (set.missing.fetch_sub(1, std::memory_order_acq_rel) == 1) *complete = &slot;
  return absl::OkStatus();
}

void Exchange::Run(ReadyList& ready, Scheduler scheduler) {
  for (Ready& one : ready) {
    if (one.failure.ok()) {
      Advance(one, scheduler);
    } else if (one.tell) {
      launches_.abort(one.launch->id(), one.failure);
    } else {
      one.launch->Abort(one.failure);
    }
  }
}

void Exchange::Advance(const Ready& ready, Scheduler scheduler) {
  Slot& slot = *ready.slot;
  uint64_t word = slot.word.load(std::memory_order_acquire);
  do {
    // An abort was faster: the slot's members are gone.
    if ((word & Slot::kAborted) != 0 || (word & Slot::kParked) == 0) return;
  } while (
      !slot.word.compare_exchange_weak(word, word & ~Slot::kParked, std::memory_order_acq_rel));
  if (ready.ring) {
    for (int host : slot.group->hosts) transport_->RingForMail(host);
  }
  const ScopedXlaFloatMode float_mode;
  if (!IsTwoRound(*slot.site)) {
    Work work;
    GatherLocal(slot, &work);
    GatherRemote(slot, &work);
    return Finish(slot, std::move(work), scheduler);
  }
  if (ready.round == 1) return Spread(slot);
  if (!Combine(ready.launch, slot)) Defer(ready.launch, slot, 1);
}

void Exchange::Defer(std::shared_ptr<Launch> launch, Slot& slot, int round) {
  {
    MutexLock lock(deferred_mutex_);
    deferred_.push_back({std::move(launch), &slot, round});
  }
  transport_->RingSelf();  // the poller sleeps less long from now on
}

bool Exchange::HasDeferred() {
  MutexLock lock(deferred_mutex_);
  return !deferred_.empty();
}

void Exchange::RetryDeferred() {
  std::vector<Deferred> deferred;
  {
    MutexLock lock(deferred_mutex_);
    deferred.swap(deferred_);
  }
  for (Deferred& one : deferred) {
    if (one.launch->aborted()) {
      Park(*one.launch, *one.slot);
    } else if (one.round == 0) {
      Arrived(*one.launch, *one.slot, {});
    } else if (!Combine(one.launch, *one.slot)) {
      Defer(one.launch, *one.slot, 1);
    }
  }
}

// --- launches ---

void Exchange::Began(Launch& launch) {
  std::vector<Early> early;
  {
    MutexLock lock(early_mutex_);
    std::erase(dropped_, launch.id());
    auto it = early_.find(launch.id());
    if (it == early_.end()) return;
    early = std::move(it->second);
    early_.erase(it);
  }
  ReadyList ready;
  {
    MutexLock lock(transport_->receive_mutex());
    for (const Early& one : early) {
      OnLaunchMessage(launch.shared_from_this(), one.from, one.head,
                      one.head.block == 0 ? one.inline_payload.data()
                                          : transport_->PayloadOf(one.from, one.head.block),
                      &ready);
    }
  }
  Run(ready, {});
}

void Exchange::Drop(Launch& launch) {
  {
    MutexLock lock(early_mutex_);
    dropped_.push_back(launch.id());
    if (dropped_.size() > kDroppedRemembered) dropped_.pop_front();
  }
  MutexLock lock(transport_->receive_mutex());
  for (Slot& slot : launch.slots()) {
    if (slot.remote == nullptr) continue;
    for (uint32_t step : {0u, 1u}) {
      for (int round = 0; round < kMaxRounds; ++round) {
        Acknowledge(slot, slot.remote->set(step, round));
      }
    }
    if (slot.remote->share_block != 0) {
      transport_->arena().Seal(std::exchange(slot.remote->share_block, 0));
    }
  }
}

void Exchange::SendAbort(int32_t launch, const absl::Status& cause, absl::Span<const int> hosts) {
  MessageHead head;
  head.kind = MessageKind::kAbort;
  head.launch = launch;
  head.step = static_cast<uint32_t>(cause.code());
  const std::string text(cause.message().substr(0, kMessagePayload));
  head.bytes = text.size();
  const auto send = [&](int host) {
    if (host == transport_->host() || host >= transport_->hosts()) return;
    transport_->Send(host, head, text);
    transport_->Ring(host);
  };
  for (int host : hosts) send(host);
  for (int host = 0; hosts.empty() && host < transport_->hosts(); ++host) send(host);
}

void Exchange::HostLost(int host) {
  transport_->HostLost(host);
  transfers_.HostLost(host);
  transport_->RingSelf();  // there may be room now
}

void Exchange::Tidy(TimePoint now, Duration age) {
  std::vector<Early> old;
  {
    MutexLock lock(early_mutex_);
    absl::erase_if(early_, [&](auto& item) {
      std::erase_if(item.second, [&](Early& one) {
        if (one.since == TimePoint{}) one.since = now;
        if (now - one.since < age) return false;
        old.push_back(one);
        return true;
      });
      return item.second.empty();
    });
  }
  for (const Early& one : old) {
    if (one.head.block != 0) transport_->Acknowledge(one.from, one.head.block);
  }
  transfers_.Tidy(now, age);
  transport_->arena().Trim();
}

}  // namespace shardway::comm
