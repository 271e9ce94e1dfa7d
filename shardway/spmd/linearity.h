// Operators that are linear in some of their operands: of parts that add up to those they make
// parts that add up to the result. The one list of them; what else must hold (padding that is zero,
// no rounding to integers) is deferral.h's and partial_sums.h's to see.
#pragma once

#include "shardway/ir/module.h"

namespace shardway::spmd {

// Which operands are parts, all over the same axes and laid out alike; the others are whole.
enum class LinearIn {
  kNothing,
  kFirst,     // operand 0: negate, divide, gather
  kOne,       // either operand: multiply
  kAll,       // every operand: add, concatenate
  kFirstTwo,  // operands 0 and 1: dynamic_update_slice
  kChosen,    // operands 1 and 2: select
};

struct Linearity {
  LinearIn in = LinearIn::kNothing;
  // Done on parts wherever that saves sums; others only where the user wants parts.
  bool saves_sums = false;
};

Linearity LinearityOf(ir::OpKind kind);

}  // namespace shardway::spmd
