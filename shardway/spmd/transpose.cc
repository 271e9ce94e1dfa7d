// transpose: result dimension i is operand dimension permutation[i].
#include "shardway/spmd/room.h"

namespace shardway::spmd {

OpRule TransposeRule(const ir::Op& op) {
  OpRule rule;
  rule.operands.push_back(rule.NewTensor(op.operand(0)->type));
  TensorFactors result;
  for (int64_t from : op.IntList("permutation")) result.push_back(rule.operands[0][from]);
  rule.results.push_back(std::move(result));
  return rule;
}

}  // namespace shardway::spmd
