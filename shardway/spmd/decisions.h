// Why values are split as they are: what propagation remembers when it is asked to.
#pragma once

#include <vector>

#include "shardway/ir/module.h"
#include "shardway/sharding/sharding.h"

namespace shardway::spmd {

// One step of propagation: these axes came to a dimension of a value by way of an operator (a loop
// or a branch stands for what ties its values together) from another value that it touches.
struct Decision {
  int dim = 0;
  sharding::AxisList axes;
  const ir::Op* by = nullptr;
  const ir::Value* from = nullptr;
};

// By Value::id, in the order in which they were taken. What an annotation gave is not listed.
using Decisions = std::vector<std::vector<Decision>>;

}  // namespace shardway::spmd
