// jax.debug.inspect_array_sharding inside a jitted function. It arrives as a custom call whose
// configuration says whom in the client's process to tell the sharding that its operand got.
#pragma once

#include <string>
#include <vector>

#include "shardway/compile/compile.h"
#include "shardway/spmd/program.h"

namespace shardway::compile {

// Takes these calls out of a propagated program; in its order. `shardings` by Value::id.
std::vector<Inspection> TakeInspections(spmd::Program& program,
                                        const std::vector<sharding::Sharding>& shardings);

}  // namespace shardway::compile
