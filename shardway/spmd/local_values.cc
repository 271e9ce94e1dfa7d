#include "shardway/spmd/local_values.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/spmd/compute_sharding.h"
#include "shardway/spmd/costs.h"
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
      uses_(*program.module),
      hoisting_(emitter.module(), &program.mesh),
      locations_(emitter.module()),
      locals_(program.module->num_values()) {}

const ir::Op* LocalValues::SettledBy(const ir::Value* v) const {
  const ir::Op* user = v->def == nullptr ? nullptr : uses_.Only(v);
  const bool settles = user != nullptr && user->kind == ir::OpKind::kSdyShardingConstraint &&
                       !program_.annotations.contains(v->id);
  return settles ? user : nullptr;
}

namespace {

// More bytes come out of it than go in, and nothing but a copy is done.
bool Grows(const ir::Op& op) {
  if (op.kind == ir::OpKind::kBroadcastInDim) {
    return op.operand(0)->type.num_elements() < op.result()->type.num_elements();
  }
  return op.kind == ir::OpKind::kConvert &&
         ElementBytes(op.operand(0)->type.element) < ElementBytes(op.result()->type.element);
}

}  // namespace

ir::Value* LocalValues::Find(const ir::Value* v, const Sharding& want) const {
  const std::pair<uint32_t, Sharding> key{v->id, want};
  for (size_t i = scopes_.size(); i-- > 0;) {
    if (auto it = scopes_[i].find(key); it != scopes_[i].end()) return it->second;
  }
  return nullptr;
}

bool LocalValues::MayStay(const ir::Value* v, const Sharding& sharding) const {
  if (SettledBy(v) != nullptr || program_.annotations.contains(v->id)) return false;
  const Sharding& decided = Decided(v);
  for (int d = 0; d < decided.rank(); ++d) {
    if (!sharding::IsPrefix(decided.dims[d], sharding.dims[d])) return false;
  }
  return true;
}

double LocalValues::CostOf(const ir::Value* v, const Sharding& want) const {
  const Local& local = locals_[v->id];
  // A sum that is still to be made goes where it is decided to be.
  const Sharding& have = local.pending != 0 ? Decided(v) : local.sharding;
  if (have == want || Find(v, want) != nullptr) return 0;
  const double cost = ReshardCost(v->type, have, want, mesh());
  return local.pending != 0 ? cost : std::min(cost, MakeCost(v, want));
}

double LocalValues::MakeCost(const ir::Value* v, const Sharding& want) const {
  if (v->def == nullptr || !Grows(*v->def)) return std::numeric_limits<double>::infinity();
  const OpRule& rule = rules_.Of(v->def);
  FactorAxes axes(rule.factors.size());
  ProjectFactors(rule, rule.results[0], want, mesh(), axes);
  const auto bytes = static_cast<double>(sharding::LocalType(v->type, want, mesh()).num_bytes());
  return CostOf(v->def->operand(0), FromFactors(rule, rule.operands[0], axes, mesh())) +
         kCopyPrice * bytes;
}

absl::StatusOr<ir::Value*> LocalValues::Get(const ir::Value* v, const Sharding& want,
                                            const ir::Op& user, size_t index) {
  if (ir::Value* found = Find(v, want)) return found;
  const std::pair<uint32_t, Sharding> key{v->id, want};
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
      if (MakeCost(v, want) < ReshardCost(v->type, local.sharding, want, mesh())) {
        SHARDWAY_ASSIGN_OR_RETURN(shard, Make(*v->def, want));
      } else {
        emitter_.set_cause(
            {Cause::Kind::kOperand, &user, static_cast<int>(index), local.sharding, want});
        shard = EmitReshard(emitter_, local.shard, v->type, local.sharding, want,
                            program_.manual_of(v));
      }
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
    operand_shardings.push_back(FromFactors(rule, rule.operands[i], axes, mesh()));
    SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard, Get(op.operand(i), operand_shardings[i], op, i));
    operands.push_back(shard);
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
