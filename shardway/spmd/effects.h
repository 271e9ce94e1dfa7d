// Which operators matter beside their results.
#pragma once

#include "shardway/ir/module.h"

namespace shardway::spmd {

// Whether `op` ends a region, moves data in or out, or is a custom call that says so; control flow
// with such an operator inside.
bool HasEffect(const ir::Op& op);

bool IsBranch(const ir::Op& op);  // if, case

// Whether `op` may be done elsewhere, or once more or less often, and nobody can tell. Control flow
// and barriers are not said to.
bool IsPure(const ir::Op& op);

}  // namespace shardway::spmd
