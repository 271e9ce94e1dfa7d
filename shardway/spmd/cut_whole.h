// Windows over what every device holds whole: a part is cut out of it, nothing is exchanged.
//
//   pad [s] → [t], [{}] → [{y}]     a dynamic_slice of [s], not its tiles and then their edges
//
// In the rule for that the operand has a factor of its own in the window's place, which is not
// split (Factor::cut_for); the window stays the result's.
#pragma once

#include <optional>
#include <vector>

#include "shardway/spmd/op_rule.h"

namespace shardway::spmd {

// `rule`, of which the first result's windows that `results` wants split are cut out of the
// operands that are whole along them. nullopt where there are none. Shardings are those that
// operands have, and that results are wanted in.
std::optional<OpRule> CutWhole(const ir::Op& op, const OpRule& rule,
                               const std::vector<Sharding>& operands,
                               const std::vector<Sharding>& results);

}  // namespace shardway::spmd
