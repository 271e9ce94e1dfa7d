// Which operators matter beside their results.
#pragma once

#include "shardway/ir/module.h"

namespace shardway::spmd {

// Whether `op` ends a region, moves data in or out, or is a custom call that says so; control flow
// with such an operator inside.
bool HasEffect(const ir::Op& op);

}  // namespace shardway::spmd
