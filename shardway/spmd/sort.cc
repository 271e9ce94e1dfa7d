// sort: all but the sorted dimension pass through.
#include "shardway/spmd/room.h"

namespace shardway::spmd {

OpRule SortRule(const ir::Op& op) {
  OpRule rule;
  const ir::Type& shape = op.operand(0)->type;
  TensorFactors tensor = rule.NewTensor(shape);
  int64_t dim = op.Int("dimension", -1);
  if (dim < 0) dim += shape.rank();
  if (dim >= 0 && dim < shape.rank()) rule.factors[tensor[dim][0]].kind = Factor::Kind::kReplicated;
  rule.operands.assign(op.operands.size(), tensor);
  rule.results.assign(op.results.size(), tensor);
  return rule;
}

}  // namespace shardway::spmd
