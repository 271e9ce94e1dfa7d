#include "shardway/spmd/liveness.h"

#include "shardway/spmd/effects.h"

namespace shardway::spmd {
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
