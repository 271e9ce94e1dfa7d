// Which sums may stay *unreduced*: every device of some axes holds a part, and what is done to the
// parts, linear as it is, is done to the sum.
//
//   a·b + c·d, all contracted over x     one all-reduce of the sum of parts, not two
//   loop { s = s + a·b }                 the state is a part; one all-reduce after the loop
//   loop { s = c s - a·b }               so too, where c is whole
//   loop { ys[i] = a·b }                 the stack of results is: one all-reduce of it afterwards
//   -(a·b), wanted split over x          one reduce-scatter, where it is wanted
//
// Only what the program says is here: uses and loops. Whether a value really is partial is known
// when it is computed. Values that the user wants unreduced are unreduced.h's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "shardway/ir/module.h"
#include "shardway/sharding/mesh.h"
#include "shardway/spmd/uses.h"

namespace shardway::spmd {

using sharding::AxisSet;

class Deferral {
 public:
  // `unreduced` by Value::id (UnreducedValues). `uses` are the module's and outlive it.
  Deferral(const ir::Module& module, const Uses& uses, std::vector<AxisSet> unreduced);

  // Whether the only use of `v` is by an operator of the same region that may be done on parts.
  bool MayWait(const ir::Value* v) const { return WaitsFor(v) != nullptr; }
  // That operator; null where there is none.
  const ir::Op* WaitsFor(const ir::Value* v) const;
  // Whether `op` may be done on parts of one of its operands (additions: of both) where that saves
  // sums.
  bool MayBeLinear(const ir::Op& op) const;

  // The atoms over which the user wants `v` in parts; 0 for none.
  AxisSet Unreduced(const ir::Value* v) const;
  // Whether all that `v` is there for is a constraint that wants it in parts, or the operand of
  // one, by way of operators that may work on parts.
  bool IsForParts(const ir::Value* v) const;

  // An operator whose result is the next state `index` of a loop, which does nothing else with the
  // state s but
  //   s + u, s - u       in the operator, where s may be
  //   s c                in `scale`, for a c from elsewhere
  //   s[…] = u           in the operator, a dynamic_update_slice, when all rounds together write as
  //                      many bytes as s has: summed afterwards they are no more
  struct Accumulator {
    const ir::Op* loop;
    int index;
    int added;                      // which operand of the operator is u
    int state;                      // and which is s
    const ir::Op* scale = nullptr;  // where s is scaled first
  };
  const Accumulator* FindAccumulator(const ir::Op* op) const;

  // For one computation of `v` how often its sum is combined: less than 1 on the way to an
  // accumulator, 0 where it is wanted in parts.
  double Share(const ir::Value* v) const;

 private:
  void Walk(const ir::Region& region);
  void FindAccumulators(const ir::Op& loop);
  // Of an operator that gives the next state, with `state` in front of it; null when it is none.
  std::optional<Accumulator> AccumulatorOf(const ir::Op& op, const ir::Value* state) const;

  const Uses& uses_;
  std::vector<AxisSet> unreduced_;  // by Value::id
  bool any_unreduced_;
  absl::flat_hash_map<const ir::Op*, Accumulator> accumulators_;
};

// Whether `v` is zero everywhere: a constant, or one that is broadcast.
bool IsZero(const ir::Value* v);

}  // namespace shardway::spmd
