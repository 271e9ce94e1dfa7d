// From a module as JAX sends it to the flat program that the partitioner works on: calls,
// composites and named computations inlined, manual regions turned into conversions, annotations of
// both notations (Shardy's and mhlo.sharding), wherever they stand, read onto one mesh.
#pragma once

#include "absl/status/statusor.h"
#include "shardway/compile/compile.h"
#include "shardway/ir/module.h"
#include "shardway/spmd/program.h"

namespace shardway::compile {

// The program is independent of `module`. INVALID_ARGUMENT naming the value, the axis and the
// user's line for annotations that do not fit; RESOURCE_EXHAUSTED when calls nest so that inlining
// would explode.
absl::StatusOr<spmd::Program> Flatten(const ir::Module& module, const Request& request);

}  // namespace shardway::compile
