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
  while (v->def != nullptr && !program_.annotations.contains(v->id)) {
    const ir::Op* user = uses_.Only(v);
    if (user == nullptr || user->kind == ir::OpKind::kSdyShardingConstraint) return user;
    if (user->kind != ir::OpKind::kOptimizationBarrier) return nullptr;
    const auto at = std::find(user->operands.begin(), user->operands.end(), v);
    v = user->results[at - user->operands.begin()];
  }
  return nullptr;
}

const Sharding& LocalValues::Passes(const ir::Op& barrier, size_t index) const {
  const ir::Value* from = barrier.operands[index];
  const ir::Value* v = barrier.results[index];
  const Local& local = locals_[from->id];
  const bool made = from->def != nullptr && IsCheapSource(*from->def);
  // Regions inside would each reshard it for themselves.
  const bool alone = !made && uses_.Only(from) != nullptr && !uses_.Inside(v);
  return alone && local.pending == 0 && MayStay(v, local.sharding) ? local.sharding : Wanted(v);
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
  if (v->def != nullptr && IsCheapSource(*v->def)) return 0;
  const Local& local = locals_[v->id];
  // A sum that is still to be made goes where it is decided to be.
  const Sharding& have = local.pending != 0 ? Decided(v) : local.sharding;
  if (have == want || Find(v, want) != nullptr) return 0;
  return local.pending != 0 ? ReshardCost(v->type, have, want, mesh()) : SourceOf(v, want).cost;
}

LocalValues::Source LocalValues::SourceOf(const ir::Value* v, const Sharding& want) const {
  Source best{v, std::numeric_limits<double>::infinity(), false};
  for (const ir::Value* from = v;; from = from->def->operand(0)) {
    const Local& local = locals_[from->id];
    if (local.pending != 0) break;
    if (local.shard != nullptr) {
      const bool there = Find(from, want) != nullptr;
      const bool may = local.shard->type.num_bytes() <= locals_[v->id].shard->type.num_bytes();
      const double cost = there ? 0
                          : may ? ReshardCost(v->type, local.sharding, want, mesh())
                                : std::numeric_limits<double>::infinity();
      if (cost < best.cost) best = {from, cost, false};
    }
    const double cost = MakeCost(from, want);
    if (cost < best.cost) best = {from, cost, true};
    if (from->def == nullptr || from->def->kind != ir::OpKind::kSdyShardingConstraint) break;
  }
  return best;
}

double LocalValues::MakeCost(const ir::Value* v, const Sharding& want) const {
  const bool cheap = v->def != nullptr && IsCheapSource(*v->def);
  if (v->def == nullptr || (!cheap && !Grows(*v->def)))
    return std::numeric_limits<double>::infinity();
  const auto bytes = static_cast<double>(sharding::LocalType(v->type, want, mesh()).num_bytes());
  if (cheap) return kCopyPrice * bytes;
  const OpRule& rule = rules_.Of(v->def);
  FactorAxes axes(rule.factors.size());
  ProjectFactors(rule, rule.results[0], want, mesh(), axes);
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
      const Source source = SourceOf(v, want);
      if (source.make) {
        SHARDWAY_ASSIGN_OR_RETURN(shard, Make(*source.v->def, want));
      } else if (source.v != v) {
        SHARDWAY_ASSIGN_OR_RETURN(shard, Get(source.v, want, user, index));
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
