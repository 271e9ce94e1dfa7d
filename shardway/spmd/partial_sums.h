// Partial results on their way to whole ones: combined where they are made, or, where deferral.h
// says that a sum may stay unreduced or the user that it must (unreduced.h), carried as parts
// through linear operators and loops.
#pragma once

#include "absl/status/statusor.h"
#include "shardway/spmd/deferral.h"
#include "shardway/spmd/local_values.h"
#include "shardway/spmd/unreduced.h"

namespace shardway::spmd {

// Partial results of `v` over the `pending` atoms, combined: by reduce-scatters as far as `want`
// splits the value over these atoms, by one all-reduce for the rest. `sharding` is what the parts
// have, and becomes what the result has.
ir::Value* CombineParts(Emitter& e, const ir::Value& v, ir::Value* parts,
                        collective::Reduction reduction, AxisSet pending, Sharding& sharding,
                        const Sharding& want);

class PartialSums {
 public:
  // `values` outlives it; `shardings` are the propagated ones. `poison` fills the padding of
  // operands (poison.h).
  PartialSums(LocalValues& values, const std::vector<Sharding>& shardings, bool poison)
      : deferral_(*values.program().module, values.uses(),
                  UnreducedValues(values.program(), shardings)),
        values_(values),
        poison_(poison) {}

  // The atoms over which the user wants `v` in parts; 0 for none.
  AxisSet Unreduced(const ir::Value* v) const { return deferral_.Unreduced(v); }
  // The parts over just `axes` of `v` under `want`, for operand `index` of `user`; its shard where
  // there are no axes.
  absl::StatusOr<ir::Value*> Get(const ir::Value* v, const Sharding& want, AxisSet axes,
                                 const ir::Op& user, size_t index);

  // `v` is computed as `parts`: they wait for its only use where that may be done on parts and
  // something is gained by it.
  void Bind(const ir::Value* v, const Local& parts);
  // How often a sum is combined for each time that it is computed.
  double Share(const ir::Value* v) const { return deferral_.Share(v); }

  // An operator that is linear in its partial operands, done on the parts and bound; false where it
  // can't be.
  absl::StatusOr<bool> OnParts(const ir::Op& op);

  // A constraint (one operand, one result) hands parts on; false where it wants another layout.
  bool PassOn(const ir::Op& op);
  // One that wants parts gets them.
  absl::Status Constrain(const ir::Op& op);

  // Whether `v`, the next state of a loop, is a sum that the loop accumulates in parts.
  bool Accumulates(const ir::Value* v) const;
  // What such a sum starts from: parts of `first`, operand `index` of `loop`, like those of `next`.
  absl::StatusOr<ir::Value*> FirstParts(const ir::Op& loop, size_t index, const ir::Value* next);

 private:
  // Whether it is worth while to let `v`, partial over `pending`, wait: somewhere on its way sums
  // meet, are summed once more, or are wanted split over these axes. Scaling alone is cheaper, or
  // as cheap, on what the sum has become.
  bool Gains(const ir::Value* v, AxisSet pending) const;
  // The partial operand that decides how `op` is done on parts, or null where it can't be.
  const ir::Value* Deciding(const ir::Op& op) const;
  // Whether `op`, whose result is wanted in parts, can be done on those of `partial`, one of its
  // operands: there more is linear than where it saves sums.
  bool LinearForParts(const ir::Op& op, const ir::Value* partial) const;
  // What an operator that is linear in its first operand needs besides.
  bool KeepsSums(const ir::Op& op) const;
  // Whether it is done on its partial operands as they are where its factors are split so, and
  // without anything from other devices.
  bool AsTheyAre(const ir::Op& op, const OpRule& rule, const FactorAxes& axes) const;
  // Makes the state of a loop parts like `accumulator`'s other operand; false where it can't be.
  bool BeginState(const ir::Op& op, const Deferral::Accumulator& accumulator);

  Deferral deferral_;
  LocalValues& values_;
  const bool poison_;
};

}  // namespace shardway::spmd
