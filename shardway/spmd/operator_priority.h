// When propagation goes through an operator, and which way (GSPMD §3.5). Early levels make the
// decisions that hardly anybody would make otherwise; each level runs, together with all before it,
// to a fixed point before the next one begins:
//
//   0  elementwise operators, constraints, what loops and branches tie together
//   1  operators that keep all elements: transpose, reshape, reverse, conversions of manual regions
//   2  operators that drop or add elements: reduce, slice, pad, gather, sort, …; a broadcast's
//   operand
//      from its result
//   3  contractions: dot_general, convolution; custom calls
//   4  a broadcast's result from its operand, which says nothing about the new dimensions
#pragma once

#include "shardway/spmd/program.h"

namespace shardway::spmd {

inline constexpr int kPropagationLevels = 5;
inline constexpr int kNeverPropagates = kPropagationLevels;

struct OperatorPriority {
  int to_operands = 0;  // the level from which on operands take from the other tensors
  int to_results = 0;   // and results
};

OperatorPriority PriorityOf(const ir::Op& op);

}  // namespace shardway::spmd
