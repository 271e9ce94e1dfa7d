#include "shardway/spmd/liveness.h"

namespace shardway::spmd {
namespace {

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

}  // namespace

Liveness::Liveness(const ir::Module& module) : used_(module.num_values()) {
  Walk(*module.main()->body);
}

bool Liveness::used(const ir::Op& op) const {
  for (const ir::Value* v : op.results) {
    if (used_[v->id]) return true;
  }
  return false;
}

void Liveness::Walk(const ir::Region& region) {
  for (size_t i = region.ops.size(); i-- > 0;) {
    const ir::Op& op = *region.ops[i];
    if (!used(op) && !HasEffect(op)) continue;
    live_.insert(&op);
    for (const ir::Value* v : op.operands) used_[v->id] = true;
    // Inside first to last does not matter: every value a region takes from outside is above `op`.
    for (const ir::Region* body : op.regions) Walk(*body);
  }
}

}  // namespace shardway::spmd
