#include "shardway/scheduler/scheduler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "shardway/scheduler/session_queue.h"

namespace shardway::scheduler {
namespace {

// Programs whose time is remembered; the table starts afresh beyond that.
constexpr size_t kMaxEstimates = 1 << 16;

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Scheduler::Scheduler(int num_hosts, SchedulerOptions options)
    : options_(options), hosts_(num_hosts) {}

Scheduler::~Scheduler() = default;

SessionQueue* Scheduler::AddSession(std::string name, double weight, int64_t memory_budget) {
  sessions_.push_back(std::make_unique<SessionQueue>(std::move(name), weight, memory_budget));
  return sessions_.back().get();
}

const MemoryBudget& Scheduler::memory(const SessionQueue* session) const { return session->memory; }

std::deque<Waiting> Scheduler::RemoveSession(SessionQueue* session) {
  std::deque<Waiting> dropped = std::move(session->waiting);
  session->waiting.clear();
  queued_ -= static_cast<int64_t>(dropped.size());
  session->removed = true;
  UpdateActive(session);
  return dropped;
}

absl::Status Scheduler::Check(const Gang& gang) const {
  const SessionQueue& session = *gang.session;
  if (gang.bytes > session.memory.budget()) {
    return ExhaustedError(gang);
  }
  if (static_cast<int64_t>(session.waiting.size()) >= options_.max_queued) {
    return absl::ResourceExhaustedError(
        absl::StrCat("session '", session.name, "' has ", session.waiting.size(),
                     " computations waiting: wait for results before launching more"));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::ExhaustedError(const Gang& gang) const {
  const MemoryBudget& memory = gang.session->memory;
  return absl::ResourceExhaustedError(absl::StrCat(
      "out of device memory: ", gang.bytes, " bytes per device are needed, ",
      memory.Used(*gang.slice), " of the session's ", memory.budget(),
      " are taken by live arrays; delete some, donate inputs, or raise the memory budget"));
}

bool Scheduler::Start(Gang& gang, TimePoint now) {
  if (queued_ != 0 || !MayStart(gang)) {
    return false;
  }
  MarkStarted(gang, now);
  return true;
}

void Scheduler::Enqueue(Gang gang, std::unique_ptr<Work> work) {
  SessionQueue* session = gang.session;
  session->waiting.push_back({gang, std::move(work)});
  ++queued_;
  UpdateActive(session);
}

std::optional<Waiting> Scheduler::Next(TimePoint now) {
  if (queued_ == 0) {
    return std::nullopt;
  }
  absl::InlinedVector<SessionQueue*, 8> heads;
  for (const auto& session : sessions_) {
    if (!session->waiting.empty()) {
      heads.push_back(session.get());
    }
  }
  if (heads.size() > 1) {
    std::stable_sort(heads.begin(), heads.end(), [this](SessionQueue* a, SessionQueue* b) {
      return std::max(a->finish_tag, virtual_time_) < std::max(b->finish_tag, virtual_time_);
    });
  }
  absl::flat_hash_set<int> kept_free;  // hosts that a gang further ahead waits for
  for (SessionQueue* session : heads) {
    Gang& head = session->waiting.front().gang;
    if (session->in_flight >= options_.max_in_flight) {
      continue;
    }
    if (!session->memory.Fits(*head.slice, head.bytes)) {
      if (session->in_flight == 0 && !session->starved_since) {
        session->starved_since = now;
      }
      continue;
    }
    const bool kept_off = std::any_of(head.slice->hosts.begin(), head.slice->hosts.end(),
                                      [&](int host) { return kept_free.contains(host); });
    if (kept_off || !FitsHosts(head)) {
      kept_free.insert(head.slice->hosts.begin(), head.slice->hosts.end());
      continue;
    }
    Waiting next = std::move(session->waiting.front());
    session->waiting.pop_front();
    --queued_;
    MarkStarted(next.gang, now);
    return next;
  }
  return std::nullopt;
}

bool Scheduler::FitsHosts(const Gang& gang) const {
  if (active_ <= 1) {
    return true;
  }
  const Duration estimate = Estimate(gang.program);
  return std::all_of(gang.slice->hosts.begin(), gang.slice->hosts.end(), [&](int host) {
    const HostLoad& load = hosts_[host];
    return load.gangs < options_.min_depth || load.in_flight + estimate <= options_.window;
  });
}

bool Scheduler::MayStart(const Gang& gang) const {
  const SessionQueue& session = *gang.session;
  return session.in_flight < options_.max_in_flight &&
         session.memory.Fits(*gang.slice, gang.bytes) &&
         // A session that starts only now is not counted as active yet, and shares all the same.
         ((active_ <= 1 && (session.active || active_ == 0)) || FitsHosts(gang));
}

void Scheduler::MarkStarted(Gang& gang, TimePoint now) {
  SessionQueue& session = *gang.session;
  gang.started = now;
  gang.charged = Estimate(gang.program);
  session.memory.Charge(*gang.slice, gang.bytes);
  session.starved_since.reset();
  ++session.in_flight;
  virtual_time_ = std::max(virtual_time_, session.finish_tag);
  session.finish_tag = virtual_time_ + Seconds(gang.charged) / session.weight;
  for (int host : gang.slice->hosts) {
    hosts_[host].in_flight += gang.charged;
    ++hosts_[host].gangs;
  }
  UpdateActive(&session);
}

void Scheduler::Finished(const Gang& gang, TimePoint now) {
  SessionQueue* session = gang.session;
  TimePoint begin = now;  // the earliest time at which one of its hosts could have begun it
  for (int host : gang.slice->hosts) {
    begin = std::min(begin, std::max(gang.started, hosts_[host].last_end));
    hosts_[host].last_end = now;
  }
  if (gang.program != 0) {
    const Duration occupancy = now - begin;
    session->finish_tag += Seconds(occupancy - gang.charged) / session->weight;
    if (auto it = estimates_.find(gang.program); it != estimates_.end()) {
      it->second += (occupancy - it->second) / 8;
    } else {
      if (estimates_.size() >= kMaxEstimates) {
        estimates_.clear();
      }
      estimates_.emplace(gang.program, occupancy);
    }
  }
  TakeOff(gang);
}

void Scheduler::Abandoned(const Gang& gang) {
  gang.session->finish_tag -= Seconds(gang.charged) / gang.session->weight;
  gang.session->memory.Release(*gang.slice, gang.bytes);
  TakeOff(gang);
}

void Scheduler::TakeOff(const Gang& gang) {
  for (int host : gang.slice->hosts) {
    hosts_[host].in_flight -= gang.charged;
    --hosts_[host].gangs;
  }
  --gang.session->in_flight;
  UpdateActive(gang.session);
}

void Scheduler::Release(SessionQueue* session, const topology::Slice& slice, int64_t bytes) {
  session->memory.Release(slice, bytes);
  session->starved_since.reset();
}

std::vector<Waiting> Scheduler::Expired(TimePoint now) {
  std::vector<Waiting> expired;
  for (const auto& session : sessions_) {
    if (session->starved_since && now - *session->starved_since >= options_.memory_patience &&
        !session->waiting.empty()) {
      expired.push_back(std::move(session->waiting.front()));
      session->waiting.pop_front();
      --queued_;
      session->starved_since.reset();
      UpdateActive(session.get());
    }
  }
  return expired;
}

Duration Scheduler::Estimate(uint64_t program) const {
  if (program == 0) {
    return Duration(0);
  }
  auto it = estimates_.find(program);
  return it == estimates_.end() ? options_.first_estimate : it->second;
}

void Scheduler::UpdateActive(SessionQueue* session) {
  const bool active = session->in_flight > 0 || !session->waiting.empty();
  if (active != session->active) {
    session->active = active;
    active_ += active ? 1 : -1;
  }
  if (session->removed && !active) {
    auto it = std::find_if(sessions_.begin(), sessions_.end(),
                           [&](const auto& s) { return s.get() == session; });
    sessions_.erase(it);
  }
}

}  // namespace shardway::scheduler
