// Operators that others say as well are written as those, so that they are split as those are:
//
//   dot, einsum, unary_einsum                dot_general, sums before it, transpose after it
//   batch_norm_training, _inference, _grad   elementwise operators, and sums over the batch
//   broadcast, torch_index_select            broadcast_in_dim, gather
//   dynamic_broadcast_in_dim, dynamic_pad, … the same of a shape that is known, where it is known
//   get_dimension_size                       a constant
//   tuple, get_tuple_element                 the values themselves
//   async_start, async_done                  what is started
//
// Annotations, manual axes and lines of the user's stay: they are of what stands for the result.
#pragma once

#include "absl/status/status.h"
#include "shardway/spmd/program.h"

namespace shardway::spmd {

// In the whole program, in one walk; to be called before rules are made. INVALID_ARGUMENT for
// operators that do not fit their operands; UNIMPLEMENTED, unless there is one device only, where a
// size is known only when the program runs. Both name the operator and the user's line.
absl::Status ExpandOperators(Program& program);

// Whether none of this kind is left afterwards (a tuple may be, where it is handed on as one).
bool IsExpanded(ir::OpKind kind);

}  // namespace shardway::spmd
