// Values that the program itself wants *unreduced* over some atoms (Annotation::unreduced): the
// devices of these atoms hold parts, and the value is their sum. Where deferral.h may leave a sum
// in parts, here it must: at the program's boundary and in a manual region the parts show.
//
//   an argument, a result of a manual region        has parts
//   a constraint, a result of the program           is made of parts: those that its operand is in,
//                                                   or, of a whole value,
//       f32[8]        unreduced={x}                 the first device of x has it, the others zeros
//       f32[8] by x   unreduced={x}                 each has its own shard, and zeros around it
//   the state of a loop, the result of branches     is in parts where what the body returns is
//   a result of an optimization barrier             where its operand is
//
// Operators that are linear in such values are done on the parts (partial_sums.h), everything else
// on their sum.
#pragma once

#include <vector>

#include "shardway/spmd/local_values.h"

namespace shardway::spmd {

// By Value::id: the atoms over which the value is held as parts; 0 for whole ones. `shardings` are
// the propagated ones.
std::vector<AxisSet> UnreducedValues(const Program& program,
                                     const std::vector<Sharding>& shardings);

// Parts of a value of `type` whose shard is `whole` under `sharding`: over `axes`, each a shard
// under `want`, which is not split over them. See above.
ir::Value* ToParts(Emitter& e, ir::Value* whole, const ir::Type& type, const Sharding& sharding,
                   AxisSet axes, const Sharding& want, AxisSet manual);

// `x` on the first device of `axes`, zeros on the others.
ir::Value* OnOneDevice(Emitter& e, ir::Value* x, AxisSet axes);

}  // namespace shardway::spmd
