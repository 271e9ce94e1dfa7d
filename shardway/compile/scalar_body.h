// The bodies of reductions and the comparators of sorts: computations of scalars that stand alone.
#pragma once

#include "absl/status/status.h"
#include "shardway/ir/clone.h"
#include "shardway/ir/module.h"

namespace shardway::compile {

inline constexpr size_t kMaxOps = 2'000'000;  // what inlining may grow a program to
inline constexpr int kMaxCallDepth = 500;

// Copies `body`, of an operator in `from`, into the empty region `into` of `to`: calls inlined,
// annotations dropped. Constants that it takes from outside (MLIR moves them there) are brought in;
// UNIMPLEMENTED for any other value from outside.
absl::Status CopyScalarBody(const ir::Module& from, const ir::Region& body, ir::Region* into,
                            ir::Module& to, ir::Cloner& cloner);

}  // namespace shardway::compile
