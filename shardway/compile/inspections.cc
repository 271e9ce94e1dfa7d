#include "shardway/compile/inspections.h"

#include "shardway/sharding/hlo_sharding.h"

namespace shardway::compile {
namespace {

bool IsInspection(const ir::Op& op) {
  return op.kind == ir::OpKind::kCustomCall && op.String("call_target_name") == "InspectSharding" &&
         op.operands.size() == 1 && op.operand(0)->type.is_tensor();
}

void TakeFrom(ir::Region& region, const spmd::Program& program,
              const std::vector<sharding::Sharding>& shardings, std::vector<Inspection>& taken) {
  size_t kept = 0;
  for (ir::Op* op : region.ops) {
    for (ir::Region* inner : op->regions) TakeFrom(*inner, program, shardings, taken);
    if (IsInspection(*op)) {
      const ir::Value* v = op->operand(0);
      taken.push_back({std::string(op->String("backend_config")),
                       sharding::ToOpShardingBytes(shardings[v->id], program.mesh,
                                                   program.order_of(v), program.unreduced_of(v))});
    } else {
      region.ops[kept++] = op;
    }
  }
  region.ops.resize(kept);
}

}  // namespace

std::vector<Inspection> TakeInspections(spmd::Program& program,
                                        const std::vector<sharding::Sharding>& shardings) {
  std::vector<Inspection> taken;
  TakeFrom(*program.module->main()->body, program, shardings, taken);
  return taken;
}

}  // namespace shardway::compile
