// Which well-known reduction a body of two scalar arguments computes.
#pragma once

#include "shardway/collective/spec.h"
#include "shardway/ir/module.h"

namespace shardway::spmd {

// kNone for anything but one commutative operator of the two arguments.
collective::Reduction ReductionOf(const ir::Region& body);

}  // namespace shardway::spmd
