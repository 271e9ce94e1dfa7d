#include "shardway/spmd/partial_sums.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/spmd/combine_plan.h"
#include "shardway/spmd/compute_sharding.h"
#include "shardway/spmd/linearity.h"
#include "shardway/spmd/poison.h"
#include "shardway/spmd/reshard.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

constexpr int kLongestWay = 16;  // operators looked at for what is gained by waiting

}  // namespace

ir::Value* CombineParts(Emitter& e, const ir::Value& v, ir::Value* parts,
                        collective::Reduction reduction, AxisSet pending, Sharding& sharding,
                        const Sharding& want) {
  CombinePlan plan = PlanCombine(v.type, sharding, want, pending, e.mesh());
  for (const auto& scatter : plan.scatters) {
    const int64_t n = e.mesh().SizeOf(scatter.axes);
    const int64_t size = sharding::CeilDiv(parts->type.dims[scatter.dim], n) * n;
    parts = PadDim(e, parts, scatter.dim, size);
    parts = e.ReduceScatter(parts, reduction, scatter.dim, scatter.axes);
  }
  parts = e.AllReduce(parts, reduction, plan.reduced);
  sharding = std::move(plan.after);
  return parts;
}

bool PartialSums::Gains(const ir::Value* v, AxisSet pending) const {
  const AxisSet split = values_.Decided(v).used();
  for (int steps = 0; steps < kLongestWay; ++steps) {
    const ir::Op* user = deferral_.WaitsFor(v);
    if (user == nullptr) return false;
    const LinearIn in = LinearityOf(user->kind).in;
    const bool meet = in == LinearIn::kAll || in == LinearIn::kFirstTwo;
    if (meet || user->kind == ir::OpKind::kReduce) return true;
    v = user->result();
    if ((values_.Decided(v).used() & pending & ~split) != 0) return true;
  }
  return true;
}

void PartialSums::Bind(const ir::Value* v, const Local& parts) {
  if ((deferral_.MayWait(v) && Gains(v, parts.pending)) || deferral_.IsForParts(v)) {
    values_[v] = parts;
    return;
  }
  const Sharding& want = values_.Wanted(v);
  values_.Bind(v, values_.Sum(v, parts, want), want);
}

const ir::Value* PartialSums::Deciding(const ir::Op& op) const {
  const ir::Value* partial = nullptr;
  for (const ir::Value* v : op.operands) {
    if (values_[v].pending != 0) partial = v;
  }
  if (partial == nullptr || partial->type.element == ElementType::kI1) return nullptr;
  if (op.results.size() == 1 && deferral_.IsForParts(op.result())) {
    return LinearForParts(op, partial) ? partial : nullptr;
  }
  if (!deferral_.MayBeLinear(op)) return nullptr;
  const Local& parts = std::as_const(values_)[partial];
  auto alike = [&](const ir::Value* v) {
    return values_[v].pending == parts.pending && values_[v].sharding == parts.sharding;
  };
  auto whole_there = [&](const ir::Value* v) {
    if (values_[v].pending != 0) return false;
    if (v->def != nullptr && IsCheapSource(*v->def)) return true;
    return values_[v].sharding == parts.sharding;
  };
  const bool divides = op.kind == ir::OpKind::kDivide;
  bool linear = false;
  switch (LinearityOf(op.kind).in) {
    case LinearIn::kFirst:
      linear = op.operand(0) == partial;
      if (divides) linear &= !IsInteger(partial->type.element) && whole_there(op.operand(1));
      break;
    case LinearIn::kOne:
      linear = whole_there(op.operand(op.operand(0) == partial ? 1 : 0));
      break;
    case LinearIn::kAll:
      linear = alike(op.operand(0)) && alike(op.operand(1));
      break;
    case LinearIn::kFirstTwo:  // which adds to operand 0 what an accumulator may
      linear = values_[op.operand(0)].pending == parts.pending && partial == op.operand(1);
      break;
    default:
      break;
  }
  return linear ? partial : nullptr;
}

bool PartialSums::LinearForParts(const ir::Op& op, const ir::Value* partial) const {
  const Local& parts = std::as_const(values_)[partial];
  const auto alike = [&](const ir::Value* v) {
    return IsZero(v) || (std::as_const(values_)[v].pending == parts.pending &&
                         std::as_const(values_)[v].sharding == parts.sharding);
  };
  // All operands from one on are whole.
  const auto whole_from = [&](size_t first) {
    return std::all_of(op.operands.begin() + static_cast<int64_t>(first), op.operands.end(),
                       [&](const ir::Value* v) { return std::as_const(values_)[v].pending == 0; });
  };
  switch (LinearityOf(op.kind).in) {
    case LinearIn::kFirst:
      return op.operand(0) == partial && whole_from(1) && KeepsSums(op);
    case LinearIn::kOne:
      return std::as_const(values_)[op.operand(op.operand(0) == partial ? 1 : 0)].pending == 0;
    case LinearIn::kAll:
      return std::all_of(op.operands.begin(), op.operands.end(), alike);
    case LinearIn::kFirstTwo:
      return alike(op.operand(0)) && alike(op.operand(1)) && whole_from(2);
    case LinearIn::kChosen:
      return std::as_const(values_)[op.operand(0)].pending == 0 && alike(op.operand(1)) &&
             alike(op.operand(2));
    case LinearIn::kNothing:
      return false;
  }
  return false;
}

bool PartialSums::KeepsSums(const ir::Op& op) const {
  const ElementType from = op.operand(0)->type.element;
  switch (op.kind) {
    case ir::OpKind::kConvert: {
      // To integers each part would be rounded.
      const ElementType to = op.result()->type.element;
      return to != ElementType::kI1 && (!IsInteger(to) || IsInteger(from));
    }
    case ir::OpKind::kReduce:
      return deferral_.MayBeLinear(op);
    case ir::OpKind::kDivide:
      return !IsInteger(from);
    case ir::OpKind::kPad:
      return IsZero(op.operand(1));
    default:
      return true;
  }
}

bool PartialSums::AsTheyAre(const ir::Op& op, const OpRule& rule, const FactorAxes& axes) const {
  for (size_t f = 0; f < axes.size(); ++f) {
    const Factor& factor = rule.factors[f];
    if (axes[f].empty()) continue;
    if (factor.kind == Factor::Kind::kReplicated || factor.window || factor.border || factor.even)
      return false;
  }
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Local& local = std::as_const(values_)[op.operand(i)];
    if (local.pending != 0 &&
        FromFactors(rule, rule.operands[i], axes, values_.mesh()) != local.sharding) {
      return false;
    }
  }
  return true;
}

bool PartialSums::BeginState(const ir::Op& op, const Deferral::Accumulator& accumulator) {
  const Local& added = values_[op.operand(accumulator.added)];
  const ir::Op* scale = accumulator.scale;
  const ir::Value* v = op.operand(accumulator.state);
  Local& state = values_[v];
  if (added.pending == 0 || state.pending != 0) return false;
  if (op.kind == ir::OpKind::kDynamicUpdateSlice) {
    // Laid out as it is: what is stored in parts must be no more than the whole would be.
    const Mesh& mesh = values_.mesh();
    const OpRule& rule = values_.RuleOf(op);
    FactorAxes axes(rule.factors.size());
    ProjectFactors(rule, rule.operands[1], added.sharding, mesh, axes);
    if (FromFactors(rule, rule.operands[1], axes, mesh) != added.sharding ||
        FromFactors(rule, rule.operands[0], axes, mesh) != state.sharding) {
      return false;
    }
    for (size_t i = 2; i < op.operands.size(); ++i) {
      if (values_[op.operand(i)].pending != 0) return false;
    }
  } else if (scale != nullptr) {
    // It was scaled when it still counted as whole, and the same operator scales parts.
    Local& begun = values_[accumulator.loop->regions[1]->arguments[accumulator.index]];
    if (begun.sharding != added.sharding || state.sharding != added.sharding) return false;
    begun.pending = added.pending;
  } else {
    state.shard->type = added.shard->type;
    state.sharding = added.sharding;
  }
  state.pending = added.pending;
  return true;
}

absl::StatusOr<ir::Value*> PartialSums::Get(const ir::Value* v, const Sharding& want, AxisSet axes,
                                            const ir::Op& user, size_t index) {
  if (axes == 0) return values_.Get(v, want, user, index);
  Emitter& emitter = values_.emitter();
  const AxisSet manual = values_.program().manual_of(v);
  const bool made = v->def != nullptr && IsCheapSource(*v->def);
  if (made) {
    const ir::Op& op = *v->def;
    if (op.kind == ir::OpKind::kBroadcastInDim && values_[op.operand(0)].pending != 0) {
      SHARDWAY_ASSIGN_OR_RETURN(ir::Value * scalar,
                                Get(op.operand(0), Sharding::Replicated(0), axes, op, 0));
      const ir::Type type = sharding::LocalType(v->type, want, values_.mesh());
      return emitter.b().BroadcastInDim(scalar, type.dims, {});
    }
    SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard, values_.Get(v, want, user, index));
    return IsZero(v) ? shard : OnOneDevice(emitter, shard, axes);
  }
  Local local = std::as_const(values_)[v];
  if (local.shard == nullptr) {
    return absl::InternalError(absl::StrCat("parts of the value ", v->id, " before it is made"));
  }
  const auto cause = [&](Cause::Kind kind, const ir::Op* of, size_t operand) {
    emitter.set_cause({kind, of, static_cast<int>(operand), local.sharding, want});
  };
  if ((local.pending & axes) == 0 && local.pending != 0) {
    SHARDWAY_ASSIGN_OR_RETURN(local.shard, values_.Get(v, want, user, index));
    local = {local.shard, want};
  }
  if (local.pending == 0) {
    cause(Cause::Kind::kOperand, &user, index);
    return ToParts(emitter, local.shard, v->type, local.sharding, axes, want, manual);
  }
  if (const AxisSet more = local.pending & ~axes; more != 0) {
    cause(Cause::Kind::kPartial, v->def, v->index);
    local.shard = CombineParts(emitter, *v, local.shard, collective::Reduction::kSum, more,
                               local.sharding, want);
  }
  cause(Cause::Kind::kOperand, &user, index);
  const AxisSet parts = axes & local.pending;
  ir::Value* shard =
      EmitReshard(emitter, local.shard, v->type, local.sharding, want, manual | parts);
  return OnOneDevice(emitter, shard, axes & ~parts);
}

absl::Status PartialSums::Constrain(const ir::Op& op) {
  const ir::Value* v = op.result();
  const AxisSet axes = Unreduced(v);
  const Sharding& want = values_.Decided(v);
  SHARDWAY_ASSIGN_OR_RETURN(ir::Value * parts, Get(op.operand(0), want, axes, op, 0));
  values_[v] = {parts, want, axes};
  return absl::OkStatus();
}

bool PartialSums::PassOn(const ir::Op& op) {
  const Local& parts = values_[op.operand(0)];
  if (parts.pending == 0 || parts.sharding != values_.Decided(op.result())) return false;
  Bind(op.result(), Local(parts));
  return true;
}

absl::StatusOr<bool> PartialSums::OnParts(const ir::Op& op) {
  Emitter& emitter = values_.emitter();
  const Mesh& mesh = values_.mesh();
  const Deferral::Accumulator* accumulator = deferral_.FindAccumulator(&op);
  if (accumulator != nullptr && !BeginState(op, *accumulator)) return false;
  const ir::Value* partial = Deciding(op);
  if (partial == nullptr) return false;
  const AxisSet pending = values_[partial].pending;
  const Sharding& sharding = values_[partial].sharding;
  const OpRule& rule = values_.RuleOf(op);
  FactorAxes axes(rule.factors.size());
  const size_t deciding =
      std::find(op.operands.begin(), op.operands.end(), partial) - op.operands.begin();
  ProjectFactors(rule, rule.operands[deciding], sharding, mesh, axes);
  if (FromFactors(rule, rule.operands[deciding], axes, mesh) != sharding) return false;
  const Sharding after = FromFactors(rule, rule.results[0], axes, mesh);
  // Axes that a reshape would lose: its parts are no shards.
  if (op.kind == ir::OpKind::kReshape && after.used() != sharding.used()) return false;
  if (deferral_.IsForParts(op.result()) && !AsTheyAre(op, rule, axes)) return false;
  const ir::Value* result = op.result();
  LocalOp local{op, rule, axes, {}, {}, {after}, {}, {after}, emitter};
  local.result_types = {sharding::LocalType(result->type, after, mesh)};
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ir::Value* v = op.operand(i);
    local.operand_shardings.push_back(FromFactors(rule, rule.operands[i], axes, mesh));
    ir::Value* shard = values_[v].shard;
    if (values_[v].pending == 0) {
      SHARDWAY_ASSIGN_OR_RETURN(shard, values_.Get(v, local.operand_shardings[i], op, i));
    }
    if (poison_) shard = PoisonPadding(emitter, shard, v->type, local.operand_shardings[i]);
    local.operands.push_back(shard);
  }
  SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> made, RoomOf(op.kind).emit(local));
  const Local parts{made[0], after, pending | PendingAxes(rule, axes)};
  if (accumulator != nullptr) {
    values_[result] = parts;
  } else {
    Bind(result, parts);
  }
  return true;
}

bool PartialSums::Accumulates(const ir::Value* v) const {
  return v->def != nullptr && values_[v].pending != 0 &&
         deferral_.FindAccumulator(v->def) != nullptr;
}

absl::StatusOr<ir::Value*> PartialSums::FirstParts(const ir::Op& loop, size_t index,
                                                   const ir::Value* next) {
  const Local& parts = values_[next];
  const ir::Value* first = loop.operand(index);
  SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard, values_.Get(first, parts.sharding, loop, index));
  return IsZero(first) ? shard : OnOneDevice(values_.emitter(), shard, parts.pending);
}

}  // namespace shardway::spmd
