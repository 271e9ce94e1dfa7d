// One session as the scheduler sees it. Private to the scheduler.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "shardway/scheduler/memory_budget.h"
#include "shardway/scheduler/scheduler.h"

namespace shardway::scheduler {

class SessionQueue {
 public:
  SessionQueue(std::string name, double weight, int64_t memory_budget)
      : name(std::move(name)), weight(weight), memory(memory_budget) {}

  const std::string name;
  const double weight;
  MemoryBudget memory;
  std::deque<Waiting> waiting;
  int in_flight = 0;
  bool active = false;    // counted in Scheduler::active_
  bool removed = false;   // deleted when in_flight reaches 0
  double finish_tag = 0;  // virtual time at which what has started so far is paid for
  // Since when the first waiting gang lacks memory with nothing of the session on its way.
  std::optional<TimePoint> starved_since;
};

}  // namespace shardway::scheduler
