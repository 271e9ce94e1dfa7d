// lax.approx_max_k and approx_min_k: a custom call whose comparator is a function of the module,
// which a per-device program does not have.
#pragma once

#include "absl/status/statusor.h"
#include "shardway/ir/clone.h"
#include "shardway/ir/module.h"

namespace shardway::compile {

bool IsApproxTopK(const ir::Op& op);

// Appends to `into` what the call computes exactly, as XLA does wherever it has no faster way: a
// sort by the comparator and a slice of its beginning; binds the call's results. INVALID_ARGUMENT
// for a call that is none.
absl::StatusOr<std::vector<ir::Op*>> LowerApproxTopK(const ir::Module& from, const ir::Op& op,
                                                     ir::Region* into, ir::Module& to,
                                                     ir::Cloner& cloner);

}  // namespace shardway::compile
