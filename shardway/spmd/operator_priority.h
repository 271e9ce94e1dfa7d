// When propagation goes through an operator, and which way (GSPMD §3.5). Early levels make the
// decisions that hardly anybody would make otherwise; each level runs to a
// fixed point before the next one begins, and again after every step of a later one:
//
//   0  elementwise operators, constraints, what loops and branches tie together
//   1  operators that keep all elements: transpose, reshape, reverse, conversions of manual regions
//   2  all others: contractions (dot_general, convolution), reduce, slice, pad, gather, sort, calls
//   3  from a tensor to one with more dimensions, about which it says nothing: a broadcast's result
//      from its operand, a reduction's operand from its result
#pragma once

#include "shardway/spmd/program.h"

namespace shardway::spmd {

inline constexpr int kPropagationLevels = 4;
inline constexpr int kNeverPropagates = kPropagationLevels;

struct OperatorPriority {
  int to_operands = 0;  // the level from which on operands take from the other tensors
  int to_results = 0;   // and results
};

OperatorPriority PriorityOf(const ir::Op& op);

}  // namespace shardway::spmd
