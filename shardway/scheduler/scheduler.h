// One global order of gangs (Pathways §4.4; design decisions 5 and 7). A gang is whatever starts
// together on all devices of a slice: a run, an upload, a copy. Hosts do what they are sent in the
// order in which this class lets gangs start, so each host's order is a projection of one order and
// gangs that communicate cannot deadlock.
//
// Pure: no threads, no I/O, time is an argument. Not thread-safe.
//
// A session's gangs start in the order in which they came. One that may not start yet waits in its
// session's queue:
//   * memory: what the session's live arrays take on any device stays within its budget;
//   * depth: a session has at most `max_in_flight` gangs on the way;
//   * sharing: while several sessions have work, the estimated time of what is on its way to a host
//     stays within `window` (yet `min_depth` gangs always fit, so that hosts don't run dry). What
//     starts next is then a real choice, made by start-time fair queueing: every session has a
//     virtual time, a gang advances its session's by occupancy ÷ weight, the one furthest behind
//     goes first. Occupancy is measured, first start to last end, and corrects the estimate it was
//     charged.
// A gang that waits for a host's window keeps later ones off its hosts: wide gangs aren't starved.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "shardway/base/clock.h"
#include "shardway/scheduler/memory_budget.h"
#include "shardway/topology/slice.h"

namespace shardway::scheduler {

class SessionQueue;

struct Gang {
  SessionQueue* session = nullptr;
  const topology::Slice* slice = nullptr;
  int64_t bytes = 0;     // memory that it makes live, per device
  uint64_t program = 0;  // what its time is remembered by; 0: not a computation

  // Set by the scheduler when it starts:
  TimePoint started;
  Duration charged{0};
};

// What a waiting gang carries for its owner.
class Work {
 public:
  virtual ~Work() = default;
};

struct Waiting {
  Gang gang;
  std::unique_ptr<Work> work;
};

struct SchedulerOptions {
  int max_in_flight = 4096;      // gangs of one session that have started and not ended
  int64_t max_queued = 1 << 20;  // gangs of one session that wait
  Duration window = std::chrono::milliseconds(2);
  int min_depth = 4;
  Duration first_estimate = std::chrono::microseconds(100);  // of a program that has not run yet
  Duration memory_patience = std::chrono::seconds(10);       // see Expired
};

class Scheduler {
 public:
  Scheduler(int num_hosts, SchedulerOptions options);
  ~Scheduler();

  // `weight` > 0: the session's share of contended hosts. The queue belongs to the scheduler.
  SessionQueue* AddSession(std::string name, double weight, int64_t memory_budget);
  // Gives back what still waits. Gangs in flight may still be reported by Finished, after this too
  // (the queue is deleted with the last of them).
  std::deque<Waiting> RemoveSession(SessionQueue* session);

  // RESOURCE_EXHAUSTED for a gang that can never start: larger than the session's whole budget, or
  // its queue is full. To be asked before Start and Enqueue.
  absl::Status Check(const Gang& gang) const;

  // Starts `gang` straight away if nothing stands against it.
  bool Start(Gang& gang, TimePoint now);
  // Otherwise it waits; Next gives it back when its time has come.
  void Enqueue(Gang gang, std::unique_ptr<Work> work);
  // The next gang to start, if any may. Call until empty after Enqueue, Finished and Release.
  std::optional<Waiting> Next(TimePoint now);

  // The gang has ended on all its hosts.
  void Finished(const Gang& gang, TimePoint now);
  // A gang that was let start will not be sent after all.
  void Abandoned(const Gang& gang);
  // Memory of the session's arrays that is free again.
  void Release(SessionQueue* session, const topology::Slice& slice, int64_t bytes);

  // Gangs that have waited for memory for `memory_patience` while nothing of their session was on
  // its way: only the client could make room, and it may be waiting for this very gang. The caller
  // fails them with ExhaustedError.
  std::vector<Waiting> Expired(TimePoint now);
  absl::Status ExhaustedError(const Gang& gang) const;

  // What the session's arrays take on each device, and may.
  const MemoryBudget& memory(const SessionQueue* session) const;

  bool idle() const { return queued_ == 0; }

 private:
  bool FitsHosts(const Gang& gang) const;
  bool MayStart(const Gang& gang) const;
  void MarkStarted(Gang& gang, TimePoint now);
  Duration Estimate(uint64_t program) const;
  void TakeOff(const Gang& gang);
  void UpdateActive(SessionQueue* session);

  struct HostLoad {
    Duration in_flight{0};
    int gangs = 0;
    TimePoint last_end;
  };

  const SchedulerOptions options_;
  std::vector<std::unique_ptr<SessionQueue>> sessions_;
  std::vector<HostLoad> hosts_;
  absl::flat_hash_map<uint64_t, Duration> estimates_;  // by program
  double virtual_time_ = 0;  // seconds: the start tag of the last gang that started
  int64_t queued_ = 0;       // over all sessions
  int active_ = 0;           // sessions with gangs in flight or waiting
};

}  // namespace shardway::scheduler
