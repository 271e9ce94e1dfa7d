// Concatenations of slices as single rearrangements, for whoever makes a program.
#pragma once

#include "shardway/ir/module.h"

namespace shardway::spmd {

// Makes `op`, a concatenate just added to a program under construction, take the tensors that its
// operands are slices of, where most of each is used; which stretches of them is then in attributes
// that only the partitioner knows (so the slices, when nothing else uses them, are dead).
void SeeThroughSlices(ir::Op& op);

// The stretch of operand `i` that such a concatenate, or any other, takes.
int64_t StartOf(const ir::Op& op, size_t i);
int64_t LimitOf(const ir::Op& op, size_t i);

}  // namespace shardway::spmd
