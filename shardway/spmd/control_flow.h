// Loops and branches: their regions become regions of the per-device program. The state of a loop
// and the results of branches are laid out as propagation decided, the same at every entry and
// exit; sums that a loop accumulates stay parts (partial_sums.h), and what it only hands on is
// resharded before it (loop_hoisting.h).
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "shardway/spmd/local_values.h"
#include "shardway/spmd/partial_sums.h"

namespace shardway::spmd {

class ControlFlow {
 public:
  // `visit` writes any operator of the program. Everything outlives this.
  ControlFlow(LocalValues& values, PartialSums& sums,
              std::function<absl::Status(const ir::Op&)> visit)
      : values_(values), sums_(sums), visit_(std::move(visit)) {}

  absl::Status While(const ir::Op& op);
  absl::Status Branches(const ir::Op& op);  // if, case

 private:
  // How a value crosses the border of a region: split so, in parts over `unreduced` (unreduced.h).
  struct Want {
    Sharding sharding;
    AxisSet unreduced = 0;
  };
  Want WantOf(const ir::Value* v) const { return {values_.Decided(v), sums_.Unreduced(v)}; }
  // Writes one region: arguments laid out as decided, results as `wants` says.
  absl::Status Body(const ir::Region& from, ir::Region* to, const std::vector<Want>& wants);
  // Before the loop: what was hoisted out of it, and the first parts of what it sums up.
  absl::Status Prepare(const ir::Op& op, ir::Op* loop,
                       const std::vector<LoopHoisting::Hoisted>& hoisted);

  LocalValues& values_;
  PartialSums& sums_;
  const std::function<absl::Status(const ir::Op&)> visit_;
};

}  // namespace shardway::spmd
