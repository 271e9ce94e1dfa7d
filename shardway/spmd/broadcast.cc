// broadcast_in_dim: operand dimension k becomes result dimension broadcast_dimensions[k].
#include "shardway/spmd/room.h"

namespace shardway::spmd {

OpRule BroadcastRule(const ir::Op& op) {
  OpRule rule;
  const ir::Type& from = op.operand(0)->type;
  const ir::Type& to = op.result()->type;
  TensorFactors result = rule.NewTensor(to);
  TensorFactors operand(from.rank());
  const auto& dims = op.IntList("broadcast_dimensions");
  for (int k = 0; k < from.rank(); ++k) {
    if (from.dims[k] == to.dims[dims[k]]) {
      operand[k] = result[dims[k]];
    } else {
      operand[k].push_back(rule.AddFactor(from.dims[k], Factor::Kind::kReplicated));
    }
  }
  rule.operands.push_back(std::move(operand));
  rule.results.push_back(std::move(result));
  return rule;
}

}  // namespace shardway::spmd
