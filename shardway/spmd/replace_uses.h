// For passes that put something else in the place of an operator.
#pragma once

#include "absl/container/flat_hash_map.h"
#include "shardway/ir/module.h"

namespace shardway::spmd {

// Operands in `region` and all regions inside: values that `by` names are replaced.
void ReplaceUses(ir::Region& region, const absl::flat_hash_map<const ir::Value*, ir::Value*>& by);

}  // namespace shardway::spmd
