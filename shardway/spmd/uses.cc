#include "shardway/spmd/uses.h"

namespace shardway::spmd {

Uses::Uses(const ir::Module& module) : of_(module.num_values()) { Walk(*module.main()->body); }

const ir::Op* Uses::Only(const ir::Value* v) const {
  const Of& uses = of_[v->id];
  if (uses.count != 1 || (v->def != nullptr && uses.user->parent != v->def->parent)) return nullptr;
  return uses.user;
}

void Uses::Walk(const ir::Region& region) {
  for (const ir::Op* op : region.ops) {
    for (const ir::Value* v : op->operands) {
      of_[v->id].user = op;
      ++of_[v->id].count;
      of_[v->id].inside |= (v->def != nullptr ? v->def->parent : v->owner) != &region;
    }
    for (const ir::Region* inner : op->regions) Walk(*inner);
  }
}

}  // namespace shardway::spmd
