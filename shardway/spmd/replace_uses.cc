#include "shardway/spmd/replace_uses.h"

namespace shardway::spmd {

void ReplaceUses(ir::Region& region, const absl::flat_hash_map<const ir::Value*, ir::Value*>& by) {
  for (ir::Op* op : region.ops) {
    for (ir::Value*& v : op->operands) {
      if (auto it = by.find(v); it != by.end()) v = it->second;
    }
    for (ir::Region* inner : op->regions) ReplaceUses(*inner, by);
  }
}

}  // namespace shardway::spmd
