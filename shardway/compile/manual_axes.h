// With Shardy off, a manual region is only marked by its two conversions: which values lie between
// them follows from data flow.
#pragma once

#include "absl/status/status.h"
#include "shardway/spmd/program.h"

namespace shardway::compile {

// Fills in `program.manual`, and the axes of conversions back to whole values: what their operand
// is manual over and their result is not.
absl::Status InferManualAxes(spmd::Program& program);

}  // namespace shardway::compile
