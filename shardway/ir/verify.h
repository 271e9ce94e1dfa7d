// Checks that a module is well formed: operands defined before use and in scope, terminators
// present, call targets there with matching types, and for every operator the counts and types of
// operands, results and regions and the ranges of its attributes that later passes rely on. What
// passes here can be partitioned without further checks of form.
#pragma once

#include "absl/status/status.h"
#include "shardway/ir/module.h"

namespace shardway::ir {

// INVALID_ARGUMENT naming the operator, its location and the fault.
absl::Status Verify(const Module& module);
// The same of one operator that a pass has made from parts it did not check: its form alone, not
// whether its operands are in scope.
absl::Status VerifyOp(const Module& module, const Op& op);

}  // namespace shardway::ir
