#include "shardway/spmd/effects.h"

namespace shardway::spmd {

bool HasEffect(const ir::Op& op) {
  switch (op.kind) {
    case ir::OpKind::kReturn:
    case ir::OpKind::kFuncReturn:
    case ir::OpKind::kSdyReturn:
    case ir::OpKind::kInfeed:
    case ir::OpKind::kOutfeed:
    case ir::OpKind::kSend:
    case ir::OpKind::kRecv:
      return true;
    case ir::OpKind::kCustomCall:
      return op.Bool("has_side_effect");
    default:
      break;
  }
  for (const ir::Region* region : op.regions) {
    for (const ir::Op* inner : region->ops) {
      const bool is_return = inner->kind == ir::OpKind::kReturn;
      if (!is_return && HasEffect(*inner)) return true;
    }
  }
  return false;
}

bool IsBranch(const ir::Op& op) {
  return op.kind == ir::OpKind::kIf || op.kind == ir::OpKind::kCase;
}

bool IsPure(const ir::Op& op) {
  const bool stays = op.kind == ir::OpKind::kWhile || IsBranch(op) || op.kind == ir::OpKind::kRng ||
                     op.kind == ir::OpKind::kOptimizationBarrier;
  return !stays && !HasEffect(op);
}

}  // namespace shardway::spmd
