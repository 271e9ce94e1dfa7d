#include "shardway/spmd/local_values.h"

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/spmd/compute_sharding.h"
#include "shardway/spmd/partial_sums.h"
#include "shardway/spmd/reshard.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {

LocalValues::LocalValues(const Program& program, const Rules& rules,
                         const std::vector<Sharding>& shardings, Emitter& emitter)
    : program_(program),
      rules_(rules),
      shardings_(shardings),
      emitter_(emitter),
      hoisting_(emitter.module(), &program.mesh),
      locations_(emitter.module()),
      locals_(program.module->num_values()) {}

absl::StatusOr<ir::Value*> LocalValues::Get(const ir::Value* v, const Sharding& want,
                                            const ir::Op& user, size_t index) {
  const std::pair<uint32_t, Sharding> key{v->id, want};
  for (size_t i = scopes_.size(); i-- > 0;) {
    if (auto it = scopes_[i].find(key); it != scopes_[i].end()) return it->second;
  }
  ir::Value* shard;
  if (v->def != nullptr && IsCheapSource(*v->def)) {
    SHARDWAY_ASSIGN_OR_RETURN(shard, Make(*v->def, want));
  } else {
    const Local& local = locals_[v->id];
    if (local.shard == nullptr) {
      return absl::InternalError(absl::StrCat("the value ", v->id, " is used before it is made"));
    }
    if (local.pending != 0) {
      shard = Sum(v, local, want);
    } else {
      if (local.sharding == want || !v->type.is_tensor()) return local.shard;
      if (const LoopHoisting::Loop* loop = hoisting_.Hoist(v, local.sharding, want)) {
        shard = loop->hoisted.back().argument;
        scopes_[loop->scope].emplace(key, shard);
        return shard;
      }
      emitter_.set_cause(
          {Cause::Kind::kOperand, &user, static_cast<int>(index), local.sharding, want});
      shard =
          EmitReshard(emitter_, local.shard, v->type, local.sharding, want, program_.manual_of(v));
    }
  }
  scopes_.back().emplace(key, shard);
  return shard;
}

ir::Value* LocalValues::Sum(const ir::Value* v, const Local& parts, const Sharding& want) {
  const ir::Value* made = v;
  while (made->def != nullptr && made->def->kind == ir::OpKind::kSdyShardingConstraint)
    made = made->def->operand(0);
  const ir::Location* location = emitter_.b().location();
  if (made->def != nullptr) GoTo(*made->def);
  Sharding sharding = parts.sharding;
  emitter_.set_cause({Cause::Kind::kPartial, made->def, made->index, sharding, want});
  ir::Value* shard = CombineParts(emitter_, *v, parts.shard, collective::Reduction::kSum,
                                  parts.pending, sharding, want);
  shard = EmitReshard(emitter_, shard, v->type, sharding, want, program_.manual_of(v));
  emitter_.b().set_location(location);
  return shard;
}

absl::StatusOr<ir::Value*> LocalValues::Make(const ir::Op& op, const Sharding& want) {
  const OpRule& rule = rules_.Of(&op);
  FactorAxes axes(rule.factors.size());
  ProjectFactors(rule, rule.results[0], want, mesh(), axes);
  std::vector<ir::Value*> operands;
  std::vector<Sharding> operand_shardings;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Sharding whole = Sharding::Replicated(op.operand(i)->type.rank());
    SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard, Get(op.operand(i), whole, op, i));
    operands.push_back(shard);
    operand_shardings.push_back(whole);
  }
  LocalOp local{op,
                rule,
                axes,
                std::move(operands),
                std::move(operand_shardings),
                {want},
                {sharding::LocalType(op.result()->type, want, mesh())},
                {want},
                emitter_};
  SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> made, RoomOf(op.kind).emit(local));
  return made[0];
}

}  // namespace shardway::spmd
