// Copies operators from one region into another, usually of a new module: the way in which passes
// keep what they don't change.
#pragma once

#include <functional>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "shardway/ir/module.h"

namespace shardway::ir {

// From a value of the source to its stand-in in the target.
using ValueMap = absl::flat_hash_map<const Value*, Value*>;

// Copies within or into `target`. Locations are copied once each, constants' bytes are shared. Both
// modules must outlive the cloner; the target doesn't depend on the source afterwards.
class Cloner {
 public:
  explicit Cloner(Module* target) : target_(target) {}

  ValueMap& values() { return values_; }
  Value* Map(const Value* value) const;  // the stand-in; the value itself when it has none
  void Bind(const Value* from, Value* to) { values_[from] = to; }

  // Appends a copy of `op` with its nested regions to `into`; its results are bound.
  Op* CloneOp(const Op& op, Region* into);
  // Appends copies of the operators of `from` to `into`, the terminator left out; arguments of
  // `from` must be bound. Returns what the terminator's operands became.
  std::vector<Value*> CloneBody(const Region& from, Region* into);
  // Fills the empty region `into` with a whole copy of `from`: arguments, operators, terminator.
  void CloneRegion(const Region& from, Region* into);
  // A copy of a function under `name`.
  Function* CloneFunction(const Function& function, std::string name);

  const Location* CloneLocation(const Location* location);

 private:
  Module* target_;
  ValueMap values_;
  absl::flat_hash_map<const Location*, const Location*> locations_;
};

}  // namespace shardway::ir
