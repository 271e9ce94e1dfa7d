// Partial results on their way to whole ones: combined where they are made, or, where deferral.h
// says that a sum may stay unreduced, carried as parts through linear operators and loops.
#pragma once

#include "absl/status/statusor.h"
#include "shardway/spmd/deferral.h"
#include "shardway/spmd/local_values.h"

namespace shardway::spmd {

// Partial results of `v` over the `pending` atoms, combined: by reduce-scatters as far as `want`
// splits the value over these atoms, by one all-reduce for the rest. `sharding` is what the parts
// have, and becomes what the result has.
ir::Value* CombineParts(Emitter& e, const ir::Value& v, ir::Value* parts,
                        collective::Reduction reduction, AxisSet pending, Sharding& sharding,
                        const Sharding& want);

class PartialSums {
 public:
  // Both outlive it. `poison` fills the padding of operands (poison.h).
  PartialSums(const ir::Module& program, LocalValues& values, bool poison)
      : deferral_(program), values_(values), poison_(poison) {}

  // `v` is computed as `parts`: they wait for its only use where that may be done on parts.
  void Bind(const ir::Value* v, const Local& parts);
  // How often a sum is combined for each time that it is computed.
  double Share(const ir::Value* v) const { return deferral_.Share(v); }

  // An operator that is linear in its partial operands, done on the parts and bound; false where it
  // can't be.
  absl::StatusOr<bool> OnParts(const ir::Op& op);

  // A constraint (one operand, one result) hands parts on; false where it wants another layout.
  bool PassOn(const ir::Op& op);

  // Whether `v`, the next state of a loop, is a sum that the loop accumulates in parts.
  bool Accumulates(const ir::Value* v) const;
  // What such a sum starts from: parts of `first`, operand `index` of `loop`, like those of `next`.
  absl::StatusOr<ir::Value*> FirstParts(const ir::Op& loop, size_t index, const ir::Value* next);

 private:
  // The partial operand that decides how `op` is done on parts, or null where it can't be.
  const ir::Value* Deciding(const ir::Op& op) const;
  // Makes the state of a loop parts like `accumulator`'s other operand; false where it can't be.
  bool BeginState(const ir::Op& op, const Deferral::Accumulator& accumulator);
  // The first device of `axes` has `x`, the others have zero.
  ir::Value* OnOneDevice(ir::Value* x, AxisSet axes);

  Deferral deferral_;
  LocalValues& values_;
  const bool poison_;
};

}  // namespace shardway::spmd
