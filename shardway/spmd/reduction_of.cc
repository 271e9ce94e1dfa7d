#include "shardway/spmd/reduction_of.h"

namespace shardway::spmd {

collective::Reduction ReductionOf(const ir::Region& body) {
  using collective::Reduction;
  if (body.arguments.size() != 2 || body.ops.size() < 2) return Reduction::kNone;
  const ir::Op& op = *body.ops[0];
  if (op.operands.size() != 2 || op.results.size() != 1) return Reduction::kNone;
  const bool straight = op.operand(0) == body.arguments[0] && op.operand(1) == body.arguments[1];
  const bool crossed = op.operand(0) == body.arguments[1] && op.operand(1) == body.arguments[0];
  if (!straight && !crossed) return Reduction::kNone;
  // After it only constraints (annotations, without effect on a scalar) and the return.
  const ir::Value* result = op.result();
  for (size_t i = 1; i + 1 < body.ops.size(); ++i) {
    const ir::Op& next = *body.ops[i];
    const bool constraint =
        next.kind == ir::OpKind::kSdyShardingConstraint ||
        (next.kind == ir::OpKind::kCustomCall && next.String("call_target_name") == "Sharding");
    if (!constraint || next.operand(0) != result) return Reduction::kNone;
    result = next.result();
  }
  const ir::Op& last = *body.ops.back();
  if (last.operands.size() != 1 || last.operand(0) != result) return Reduction::kNone;
  switch (op.kind) {
    case ir::OpKind::kAdd:
      return Reduction::kSum;
    case ir::OpKind::kMultiply:
      return Reduction::kProduct;
    case ir::OpKind::kMinimum:
      return Reduction::kMin;
    case ir::OpKind::kMaximum:
      return Reduction::kMax;
    case ir::OpKind::kAnd:
      return Reduction::kAnd;
    case ir::OpKind::kOr:
      return Reduction::kOr;
    case ir::OpKind::kXor:
      return Reduction::kXor;
    default:
      return Reduction::kNone;
  }
}

}  // namespace shardway::spmd
