// Operators that compute each element of the result from the elements in the same place.
#include "shardway/spmd/room.h"

namespace shardway::spmd {

OpRule ElementwiseRule(const ir::Op& op) {
  if (op.kind == ir::OpKind::kBitcastConvert &&
      op.operand(0)->type.rank() != op.result()->type.rank()) {
    // The longer one has a minor dimension more, which holds the parts of one element.
    OpRule rule;
    const bool splits = op.result()->type.rank() > op.operand(0)->type.rank();
    const ir::Type& whole = splits ? op.operand(0)->type : op.result()->type;
    const ir::Type& parts = splits ? op.result()->type : op.operand(0)->type;
    TensorFactors shared = rule.NewTensor(whole);
    TensorFactors longer = shared;
    longer.push_back({rule.AddFactor(parts.dims.back(), Factor::Kind::kReplicated)});
    rule.operands.push_back(splits ? shared : longer);
    rule.results.push_back(splits ? longer : shared);
    return rule;
  }
  return PointwiseRule(op);
}

}  // namespace shardway::spmd
