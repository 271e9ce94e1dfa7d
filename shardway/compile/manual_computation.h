// Manual regions (jax.shard_map) of Shardy's notation: sdy.manual_computation becomes the operators
// of its body between conversions.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardway/compile/annotations.h"
#include "shardway/compile/flat_program.h"

namespace shardway::compile {

// Appends the operators of a body whose arguments are bound, manual over these atoms; what it
// returns.
using InlineBody =
    std::function<absl::StatusOr<std::vector<ir::Value*>>(const ir::Region& body, AxisSet manual)>;

// Appends `op` to `into`, which is manual over `outer`, and binds its results. INVALID_ARGUMENT
// naming the operand or result for annotations that do not fit, UNIMPLEMENTED for parts of another
// reduction than a sum.
absl::Status WriteManualComputation(const ir::Op& op, ir::Region* into, AxisSet outer,
                                    const AnnotationReader& annotations, FlatProgram& out,
                                    const InlineBody& inline_body);

}  // namespace shardway::compile
