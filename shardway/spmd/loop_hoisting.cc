#include "shardway/spmd/loop_hoisting.h"

#include <algorithm>
#include <utility>

#include "shardway/spmd/reshard.h"

namespace shardway::spmd {

std::vector<LoopHoisting::Hoisted> LoopHoisting::Leave() {
  std::vector<Hoisted> hoisted = std::move(loops_.back().hoisted);
  loops_.pop_back();
  return hoisted;
}

const LoopHoisting::Loop* LoopHoisting::Hoist(const ir::Value* v, const Sharding& have,
                                              const Sharding& want) {
  if (v->def != nullptr) return nullptr;
  for (Loop& loop : loops_) {
    if (loop.body != v->owner || loop.body->terminator()->operand(v->index) != v) continue;
    const ReshardPlan plan = PlanReshard(v->type, have, want, *mesh_);
    const bool local = std::all_of(plan.steps.begin(), plan.steps.end(), [](const auto& step) {
      return step.kind == ReshardStep::Kind::kSlice;
    });
    if (local) return nullptr;
    ir::Value* argument =
        module_->AddArgument(loop.new_body, sharding::LocalType(v->type, want, *mesh_));
    loop.hoisted.push_back({v->index, want, argument});
    return &loop;
  }
  return nullptr;
}

}  // namespace shardway::spmd
