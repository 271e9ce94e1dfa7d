#include "shardway/spmd/partitioner.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/ir/clone.h"
#include "shardway/spmd/combine_collectives.h"
#include "shardway/spmd/compute_sharding.h"
#include "shardway/spmd/deferral.h"
#include "shardway/spmd/liveness.h"
#include "shardway/spmd/reshard.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

// A value of the program in the per-device program: its shard and how it is laid out.
struct Local {
  ir::Value* shard = nullptr;
  Sharding sharding;
  AxisSet pending = 0;  // atoms over which the shards are still to be summed (deferral.h)
};

// A loop being written.
struct Loop {
  struct Hoisted {
    int index;  // of the state that never changes
    Sharding sharding;
    ir::Value* argument;  // of the new body
  };
  const ir::Region* body;  // of the program
  ir::Region* new_body;
  size_t scope;  // of the body
  std::vector<Hoisted> hoisted;
};

class Partitioner {
 public:
  Partitioner(const Program& program, const Rules& rules, const std::vector<Sharding>& shardings,
              const PartitionOptions& options)
      : program_(program),
        options_(options),
        rules_(rules),
        shardings_(shardings),
        live_(*program.module),
        deferral_(*program.module),
        locals_(program.module->num_values()),
        module_(std::make_unique<ir::Module>()),
        main_(module_->AddFunction("main")),
        emitter_(module_.get(), main_->body, &program.mesh, program.num_replicas, options.backend),
        locations_(module_.get()) {}

  absl::StatusOr<PerDevice> Run() {
    module_->name = program_.module->name;
    main_->is_public = true;
    const ir::Function& source = *program_.module->main();
    for (const ir::Value* v : source.arguments()) {
      locals_[v->id] = {module_->AddArgument(main_->body, TypeOf(v)), shardings_[v->id]};
    }
    for (const ir::Value* v : source.arguments()) {
      emitter_.set_cause({Cause::Kind::kOrder, nullptr, v->index, {}, {}});
      ir::Value*& shard = locals_[v->id].shard;
      shard = Reorder(shard, v, /*inward=*/true);
    }
    scopes_.emplace_back();
    for (const ir::Op* op : source.body->ops) {
      if (op->kind == ir::OpKind::kFuncReturn || op->kind == ir::OpKind::kReturn) {
        SHARDWAY_RETURN_IF_ERROR(Finish(*op));
        break;
      }
      SHARDWAY_RETURN_IF_ERROR(Visit(*op));
    }
    CombineAllReduces(emitter_, main_->body);
    PerDevice result;
    result.uses_place = emitter_.Finish();
    main_->arg_attrs.resize(main_->body->arguments.size());
    result.collectives = emitter_.TakeSpecs();
    result.causes = emitter_.TakeCauses();
    result.module = std::move(module_);
    return result;
  }

 private:
  ir::Type TypeOf(const ir::Value* v) const {
    return sharding::LocalType(v->type, shardings_[v->id], program_.mesh);
  }

  // At the boundary: from the user's order of devices to the mesh's, or back.
  ir::Value* Reorder(ir::Value* shard, const ir::Value* v, bool inward) {
    const sharding::DeviceOrder order = program_.order_of(v);
    if (order == nullptr || shardings_[v->id].replicated()) return shard;
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (int64_t d = 0; d < program_.mesh.num_devices(); ++d) {
      const int64_t holder = (*order)[d];
      pairs.emplace_back(inward ? holder : d, inward ? d : holder);
    }
    return emitter_.Permute(shard, std::move(pairs));
  }

  absl::Status Finish(const ir::Op& op) {
    std::vector<ir::Value*> values;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ir::Value* v = op.operand(i);
      SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard, Get(v, shardings_[v->id], op, i));
      emitter_.set_cause({Cause::Kind::kOrder, &op, static_cast<int>(i), {}, {}});
      shard = Reorder(shard, v, /*inward=*/false);
      values.push_back(shard);
      main_->result_types.push_back(shard->type);
    }
    main_->result_attrs.resize(values.size());
    emitter_.b().FuncReturn(values);
    return absl::OkStatus();
  }

  // The shard of `v` under `want` for operand `index` of `user`, resharded at most once in each
  // scope.
  absl::StatusOr<ir::Value*> Get(const ir::Value* v, const Sharding& want, const ir::Op& user,
                                 size_t index) {
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
        shard = Whole(v, local, want);
      } else {
        if (local.sharding == want || !v->type.is_tensor()) return local.shard;
        if (ir::Value* outside = Hoist(v, local.sharding, want)) return outside;
        emitter_.set_cause(
            {Cause::Kind::kOperand, &user, static_cast<int>(index), local.sharding, want});
        shard = EmitReshard(emitter_, local.shard, v->type, local.sharding, want,
                            program_.manual_of(v));
      }
    }
    scopes_.back().emplace(key, shard);
    return shard;
  }

  // State that a loop only hands on is resharded once, before the loop; null for other values.
  ir::Value* Hoist(const ir::Value* v, const Sharding& have, const Sharding& want) {
    if (v->def != nullptr) return nullptr;
    for (Loop& loop : loops_) {
      if (loop.body != v->owner || loop.body->terminator()->operand(v->index) != v) continue;
      const ReshardPlan plan = PlanReshard(v->type, have, want, program_.mesh);
      const bool local = std::all_of(
          plan.steps.begin(), plan.steps.end(),
          [](const ReshardStep& step) { return step.kind == ReshardStep::Kind::kSlice; });
      if (local) return nullptr;
      ir::Value* argument =
          module_->AddArgument(loop.new_body, sharding::LocalType(v->type, want, program_.mesh));
      loop.hoisted.push_back({v->index, want, argument});
      scopes_[loop.scope].emplace(std::pair(v->id, want), argument);
      return argument;
    }
    return nullptr;
  }

  // Of a partial value the sum, as wanted.
  ir::Value* Whole(const ir::Value* v, const Local& partial, const Sharding& want) {
    Sharding sharding = partial.sharding;
    ir::Value* shard =
        Combine(v, partial.shard, collective::Reduction::kSum, partial.pending, sharding, want);
    return EmitReshard(emitter_, shard, v->type, sharding, want, program_.manual_of(v));
  }

  // Partial results wait for their only use where that may be done on parts.
  void BindSum(const ir::Value* v, const Local& partial) {
    if (deferral_.MayWait(v)) {
      locals_[v->id] = partial;
    } else {
      Bind(v, Whole(v, partial, shardings_[v->id]), shardings_[v->id]);
    }
  }

  absl::StatusOr<ir::Value*> Make(const ir::Op& op, const Sharding& want) {
    const OpRule& rule = rules_.Of(&op);
    FactorAxes axes(rule.factors.size());
    ProjectFactors(rule, rule.results[0], want, program_.mesh, axes);
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
                  {sharding::LocalType(op.result()->type, want, program_.mesh)},
                  {want},
                  emitter_};
    SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> made, RoomOf(op.kind).emit(local));
    return made[0];
  }

  absl::Status Visit(const ir::Op& op) {
    if (!live_.IsLive(op) || IsCheapSource(op)) return absl::OkStatus();
    emitter_.b().set_location(locations_.CloneLocation(op.location));
    switch (op.kind) {
      case ir::OpKind::kWhile:
        return While(op);
      case ir::OpKind::kIf:
      case ir::OpKind::kCase:
        return Branches(op);
      case ir::OpKind::kOptimizationBarrier:
        return Barrier(op);
      case ir::OpKind::kSdyShardingConstraint:
      case ir::OpKind::kSdyPropagationBarrier: {
        const ir::Value* v = op.operand(0);
        const Sharding& want = shardings_[op.result()->id];
        SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard, Get(v, want, op, 0));
        Bind(op.result(), shard, want);
        return absl::OkStatus();
      }
      default:
        break;
    }
    if (program_.conversions.contains(&op)) return Conversion(op);
    return Plain(op);
  }

  void Bind(const ir::Value* v, ir::Value* shard, Sharding sharding) {
    locals_[v->id] = {shard, std::move(sharding)};
  }

  // Nothing is computed: the shard of the whole is the whole of the shard.
  absl::Status Conversion(const ir::Op& op) {
    const AxisSet manual = program_.conversions.find(&op)->second;
    const bool to_shard = op.String("call_target_name") == kFullToShard;
    const ir::Value* whole = to_shard ? op.operand(0) : op.result();
    Sharding inside = shardings_[whole->id];
    for (AxisList& axes : inside.dims) {
      size_t keep = 0;
      for (size_t i = 0; i < axes.size(); ++i) {
        if (!sharding::Contains(manual, axes[i])) axes[keep++] = axes[i];
      }
      axes.resize(keep);
    }
    const ir::Value* part = to_shard ? op.result() : op.operand(0);
    if (sharding::LocalType(part->type, inside, program_.mesh) != TypeOf(whole)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the manual region at ", op.location->ToString(), ": a value of type ",
          whole->type.ToString(), " split as ", ToString(shardings_[whole->id], program_.mesh),
          " is not of type ", part->type.ToString(), " on each device"));
    }
    SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard,
                              Get(op.operand(0), to_shard ? shardings_[whole->id] : inside, op, 0));
    Bind(op.result(), shard, to_shard ? inside : shardings_[whole->id]);
    return absl::OkStatus();
  }

  // Every value passes as its result is wanted.
  absl::Status Barrier(const ir::Op& op) {
    std::vector<ir::Value*> operands;
    std::vector<ir::Type> types;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard,
                                Get(op.operand(i), shardings_[op.result(i)->id], op, i));
      operands.push_back(shard);
      types.push_back(shard->type);
    }
    ir::Op* barrier = emitter_.b().Create(op.kind, operands, types, op.attributes);
    for (size_t i = 0; i < op.results.size(); ++i) {
      Bind(op.result(i), barrier->result(i), shardings_[op.result(i)->id]);
    }
    return absl::OkStatus();
  }

  // The partial operand that decides how `op` is done on parts, or null where it can't be.
  const ir::Value* Partial(const ir::Op& op) const {
    const ir::Value* partial = nullptr;
    for (const ir::Value* v : op.operands) {
      if (locals_[v->id].pending != 0) partial = v;
    }
    if (partial == nullptr || partial->type.element == ElementType::kI1) return nullptr;
    const Local& parts = locals_[partial->id];
    auto alike = [&](const ir::Value* v) {
      return locals_[v->id].pending == parts.pending && locals_[v->id].sharding == parts.sharding;
    };
    auto whole_there = [&](const ir::Value* v) {
      if (locals_[v->id].pending != 0) return false;
      if (v->def != nullptr && IsCheapSource(*v->def)) return true;
      return locals_[v->id].sharding == parts.sharding;
    };
    bool linear = true;
    switch (op.kind) {
      case ir::OpKind::kAdd:
      case ir::OpKind::kSubtract:
        linear = alike(op.operand(0)) && alike(op.operand(1));
        break;
      case ir::OpKind::kMultiply:
        linear = whole_there(op.operand(op.operand(0) == partial ? 1 : 0));
        break;
      case ir::OpKind::kDivide:
        linear = !IsInteger(partial->type.element) && op.operand(0) == partial &&
                 whole_there(op.operand(1));
        break;
      case ir::OpKind::kNegate:
      case ir::OpKind::kTranspose:
      case ir::OpKind::kReshape:
      case ir::OpKind::kReduce:  // MayWait looked at its body
        linear = op.operand(0) == partial;
        break;
      default:
        linear = false;
    }
    return linear ? partial : nullptr;
  }

  // An operator that is linear in its partial operands, done on the parts; false where it can't be.
  absl::StatusOr<bool> OnParts(const ir::Op& op) {
    const Deferral::Accumulator* accumulator = deferral_.FindAccumulator(&op);
    if (accumulator != nullptr) {
      // The loop's state becomes a part as well.
      const Local& added = locals_[op.operand(accumulator->added)->id];
      Local& state = locals_[op.operand(1 - accumulator->added)->id];
      if (added.pending == 0 || state.pending != 0) return false;
      state.shard->type = added.shard->type;
      state.sharding = added.sharding;
      state.pending = added.pending;
    }
    const ir::Value* partial = Partial(op);
    if (partial == nullptr) return false;
    const AxisSet pending = locals_[partial->id].pending;
    const Sharding& sharding = locals_[partial->id].sharding;
    const OpRule& rule = rules_.Of(&op);
    FactorAxes axes(rule.factors.size());
    const size_t deciding =
        std::find(op.operands.begin(), op.operands.end(), partial) - op.operands.begin();
    ProjectFactors(rule, rule.operands[deciding], sharding, program_.mesh, axes);
    if (FromFactors(rule, rule.operands[deciding], axes, program_.mesh) != sharding) return false;
    const Sharding after = FromFactors(rule, rule.results[0], axes, program_.mesh);
    // Axes that a reshape would lose: its parts are no shards.
    if (op.kind == ir::OpKind::kReshape && after.used() != sharding.used()) return false;
    const ir::Value* result = op.result();
    LocalOp local{op, rule, axes, {}, {}, {after}, {}, {after}, emitter_};
    local.result_types = {sharding::LocalType(result->type, after, program_.mesh)};
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ir::Value* v = op.operand(i);
      local.operand_shardings.push_back(FromFactors(rule, rule.operands[i], axes, program_.mesh));
      ir::Value* shard = locals_[v->id].shard;
      if (locals_[v->id].pending == 0) {
        SHARDWAY_ASSIGN_OR_RETURN(shard, Get(v, local.operand_shardings[i], op, i));
      }
      if (options_.poison_padding) shard = Poison(shard, v->type, local.operand_shardings[i]);
      local.operands.push_back(shard);
    }
    SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> made, RoomOf(op.kind).emit(local));
    const Local parts{made[0], after, pending | PendingAxes(rule, axes)};
    if (accumulator != nullptr) {
      locals_[result->id] = parts;
    } else {
      BindSum(result, parts);
    }
    return true;
  }

  absl::Status Plain(const ir::Op& op) {
    SHARDWAY_ASSIGN_OR_RETURN(const bool on_parts, OnParts(op));
    if (on_parts) return absl::OkStatus();
    const OpRule& rule = rules_.Of(&op);
    std::vector<Sharding> have, want;
    for (const ir::Value* v : op.operands) {
      const bool made = v->def != nullptr && IsCheapSource(*v->def);
      const Local& local = locals_[v->id];
      have.push_back(made || local.pending != 0 ? shardings_[v->id] : local.sharding);
    }
    for (const ir::Value* v : op.results) want.push_back(shardings_[v->id]);
    const FactorAxes axes = ChooseComputeSharding(
        op, rule, have, want, program_.mesh, op.results.empty() ? 1 : deferral_.Share(op.result()));
    LocalOp local{op, rule, axes, {}, {}, {}, {}, want, emitter_};
    for (size_t i = 0; i < op.operands.size(); ++i) {
      local.operand_shardings.push_back(FromFactors(rule, rule.operands[i], axes, program_.mesh));
      SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard,
                                Get(op.operand(i), local.operand_shardings[i], op, i));
      if (options_.poison_padding)
        shard = Poison(shard, op.operand(i)->type, local.operand_shardings[i]);
      local.operands.push_back(shard);
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      local.result_shardings.push_back(FromFactors(rule, rule.results[i], axes, program_.mesh));
      local.result_types.push_back(
          sharding::LocalType(op.result(i)->type, local.result_shardings[i], program_.mesh));
    }
    emitter_.set_cause({Cause::Kind::kOperator, &op, 0, {}, {}});
    SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results, RoomOf(op.kind).emit(local));
    const AxisSet pending =
        rule.combine == collective::Reduction::kNone ? 0 : PendingAxes(rule, axes);
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ir::Value* v = op.result(i);
      ir::Value* shard = results[i];
      if (!v->type.is_tensor()) {
        Bind(v, shard, {});
        continue;
      }
      Sharding sharding = local.result_shardings[i];
      const int index = static_cast<int>(i);
      if (pending != 0 && rule.combine == collective::Reduction::kSum && op.results.size() == 1) {
        BindSum(v, {shard, sharding, pending});
        continue;
      }
      if (pending != 0) {
        emitter_.set_cause({Cause::Kind::kPartial, &op, index, sharding, want[i]});
        shard = Combine(v, shard, rule.combine, pending, sharding, want[i]);
      }
      if (sharding != want[i]) {
        emitter_.set_cause({Cause::Kind::kResult, &op, index, sharding, want[i]});
      }
      shard = EmitReshard(emitter_, shard, v->type, sharding, want[i], program_.manual_of(v));
      Bind(v, shard, want[i]);
    }
    return absl::OkStatus();
  }

  ir::Value* Poison(ir::Value* shard, const ir::Type& type, const Sharding& sharding) {
    if (!type.is_tensor()) return shard;
    for (int d = 0; d < sharding.rank(); ++d) {
      if (type.dims[d] % program_.mesh.SizeOf(sharding.dims[d]) == 0) continue;
      const ir::Type scalar = ir::Type::Scalar(type.element);
      const bool is_int = IsInteger(type.element) || type.element == ElementType::kI1;
      ir::Value* fill = is_int
                            ? emitter_.b().SplatInt(scalar, 113)
                            : emitter_.b().Splat(scalar, std::numeric_limits<double>::quiet_NaN());
      shard = MaskPadding(emitter_, shard, type, sharding, d, fill);
    }
    return shard;
  }

  // Partial results to whole ones; `sharding` becomes what they have then.
  ir::Value* Combine(const ir::Value* v, ir::Value* partial, collective::Reduction reduction,
                     AxisSet pending, Sharding& sharding, const Sharding& want) {
    CombinePlan plan = PlanCombine(v->type, sharding, want, pending, program_.mesh);
    for (const auto& scatter : plan.scatters) {
      partial = emitter_.ReduceScatter(partial, reduction, scatter.dim, scatter.axes);
    }
    partial = emitter_.AllReduce(partial, reduction, plan.reduced);
    sharding = std::move(plan.after);
    return partial;
  }

  // One region of control flow: arguments laid out as given, results as `wants` says.
  absl::Status Body(const ir::Region& from, ir::Region* to, const std::vector<Sharding>& wants) {
    ir::Region* outer = emitter_.b().region();
    const ir::Location* location = emitter_.b().location();
    emitter_.b().set_region(to);
    scopes_.emplace_back();
    for (const ir::Value* v : from.arguments) {
      Bind(v, module_->AddArgument(to, TypeOf(v)), shardings_[v->id]);
    }
    for (const ir::Op* op : from.ops) {
      if (op->kind != ir::OpKind::kReturn) {
        SHARDWAY_RETURN_IF_ERROR(Visit(*op));
        continue;
      }
      std::vector<ir::Value*> values;
      for (size_t i = 0; i < op->operands.size(); ++i) {
        if (Accumulates(op->operand(i))) {
          values.push_back(locals_[op->operand(i)->id].shard);
          continue;
        }
        SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard, Get(op->operand(i), wants[i], *op, i));
        values.push_back(shard);
      }
      emitter_.b().Return(values);
    }
    scopes_.pop_back();
    emitter_.b().set_region(outer);
    emitter_.b().set_location(location);
    return absl::OkStatus();
  }

  // Whether `v` is the next state of a loop, and partial.
  bool Accumulates(const ir::Value* v) const {
    return v->def != nullptr && locals_[v->id].pending != 0 &&
           deferral_.FindAccumulator(v->def) != nullptr;
  }

  // Before the loop: what was hoisted out of it, and the first parts of what it sums up.
  absl::Status Prepare(const ir::Op& op, ir::Op* loop, const std::vector<Loop::Hoisted>& hoisted) {
    for (const Loop::Hoisted& state : hoisted) {
      SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard,
                                Get(op.operand(state.index), state.sharding, op, state.index));
      loop->operands.push_back(shard);
      module_->AddResult(loop, shard->type);
      module_->AddArgument(loop->regions[0], shard->type);
      loop->regions[1]->terminator()->operands.push_back(state.argument);
    }
    const std::vector<ir::Value*>& next = op.regions[1]->terminator()->operands;
    for (size_t i = 0; i < next.size(); ++i) {
      if (!Accumulates(next[i])) continue;
      const Local& parts = locals_[next[i]->id];
      SHARDWAY_ASSIGN_OR_RETURN(ir::Value * first, Get(op.operand(i), parts.sharding, op, i));
      if (!IsZero(op.operand(i))) first = OnOneDevice(first, parts.pending);
      loop->operands[i] = first;
      loop->results[i]->type = first->type;
      loop->regions[0]->arguments[i]->type = first->type;
    }
    return absl::OkStatus();
  }

  // The first device of `axes` has `x`, the others have zero: parts of x.
  ir::Value* OnOneDevice(ir::Value* x, AxisSet axes) {
    ir::Builder& b = emitter_.b();
    ir::Value* zero = b.SplatInt(ir::Type::Scalar(ElementType::kI32), 0);
    ir::Value* is_first = b.Compare("EQ", emitter_.Coordinate(program_.mesh.ToList(axes)), zero);
    return b.Select(b.BroadcastInDim(is_first, x->type.dims, {}), x, b.SplatInt(x->type, 0));
  }

  absl::Status While(const ir::Op& op) {
    // The state is laid out as the body's arguments; the condition's have the same by propagation.
    const ir::Region& body = *op.regions[1];
    std::vector<ir::Value*> operands;
    std::vector<ir::Type> types;
    std::vector<Sharding> state;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      state.push_back(shardings_[body.arguments[i]->id]);
      SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard, Get(op.operand(i), state[i], op, i));
      operands.push_back(shard);
      types.push_back(shard->type);
      if (shardings_[op.regions[0]->arguments[i]->id] != state[i]) {
        return absl::InternalError(absl::StrCat("the loop at ", op.location->ToString(),
                                                ": condition and body disagree about its state"));
      }
    }
    ir::Op* loop = emitter_.b().Create(ir::OpKind::kWhile, operands, types);
    const std::vector<Sharding> scalar = {Sharding::Replicated(0)};
    SHARDWAY_RETURN_IF_ERROR(Body(*op.regions[0], module_->AddRegion(loop), scalar));
    ir::Region* new_body = module_->AddRegion(loop);
    loops_.push_back({&body, new_body, scopes_.size(), {}});
    SHARDWAY_RETURN_IF_ERROR(Body(body, new_body, state));
    const std::vector<Loop::Hoisted> hoisted = std::move(loops_.back().hoisted);
    loops_.pop_back();
    SHARDWAY_RETURN_IF_ERROR(Prepare(op, loop, hoisted));
    // What prepares the loop was written after it.
    std::vector<ir::Op*>& outer = emitter_.b().region()->ops;
    const auto at = std::find(outer.begin(), outer.end(), loop);
    std::rotate(at, at + 1, outer.end());
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ir::Value* next = body.terminator()->operand(i);
      if (Accumulates(next)) {
        const Local& parts = locals_[next->id];
        BindSum(op.result(i), {loop->result(i), parts.sharding, parts.pending});
      } else {
        Bind(op.result(i), loop->result(i), state[i]);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Branches(const ir::Op& op) {
    std::vector<ir::Type> types;
    std::vector<Sharding> wants;
    for (const ir::Value* v : op.results) {
      wants.push_back(shardings_[v->id]);
      types.push_back(TypeOf(v));
    }
    SHARDWAY_ASSIGN_OR_RETURN(ir::Value * index,
                              Get(op.operand(0), Sharding::Replicated(0), op, 0));
    ir::Op* branches = emitter_.b().Create(op.kind, {&index, 1}, types);
    for (const ir::Region* region : op.regions) {
      SHARDWAY_RETURN_IF_ERROR(Body(*region, module_->AddRegion(branches), wants));
    }
    for (size_t i = 0; i < op.results.size(); ++i)
      Bind(op.result(i), branches->result(i), wants[i]);
    return absl::OkStatus();
  }

  const Program& program_;
  const PartitionOptions options_;
  const Rules& rules_;
  const std::vector<Sharding>& shardings_;
  Liveness live_;
  Deferral deferral_;
  std::vector<Local> locals_;  // by Value::id
  std::unique_ptr<ir::Module> module_;
  ir::Function* main_;
  Emitter emitter_;
  ir::Cloner locations_;
  std::vector<absl::flat_hash_map<std::pair<uint32_t, Sharding>, ir::Value*>> scopes_;
  std::vector<Loop> loops_;  // innermost last
};

}  // namespace

absl::StatusOr<PerDevice> Partition(const Program& program, const Rules& rules,
                                    const std::vector<Sharding>& shardings,
                                    const PartitionOptions& options) {
  return Partitioner(program, rules, shardings, options).Run();
}

}  // namespace shardway::spmd
