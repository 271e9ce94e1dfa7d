#include "shardway/spmd/partitioner.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/ir/clone.h"
#include "shardway/spmd/combine_collectives.h"
#include "shardway/spmd/combine_neighbours.h"
#include "shardway/spmd/compute_sharding.h"
#include "shardway/spmd/control_flow.h"
#include "shardway/spmd/cut_whole.h"
#include "shardway/spmd/hoist_collectives.h"
#include "shardway/spmd/island_steps.h"
#include "shardway/spmd/liveness.h"
#include "shardway/spmd/local_values.h"
#include "shardway/spmd/order_collectives.h"
#include "shardway/spmd/partial_sums.h"
#include "shardway/spmd/poison.h"
#include "shardway/spmd/reshard.h"
#include "shardway/spmd/room.h"
#include "shardway/spmd/send_first.h"
#include "shardway/spmd/sink_collectives.h"

namespace shardway::spmd {
namespace {

class Partitioner {
 public:
  Partitioner(const Program& program, const Rules& rules, const std::vector<Sharding>& shardings,
              const PartitionOptions& options)
      : program_(program),
        options_(options),
        live_(*program.module),
        module_(std::make_unique<ir::Module>()),
        main_(module_->AddFunction("main")),
        emitter_(module_.get(), main_->body, &program.mesh, program.num_replicas, options.backend),
        values_(program, rules, shardings, emitter_),
        sums_(values_, shardings, options.poison_padding),
        control_flow_(values_, sums_, [this](const ir::Op& op) { return Visit(op); }) {}

  absl::StatusOr<PerDevice> Run() {
    module_->name = program_.module->name;
    main_->is_public = true;
    const ir::Function& source = *program_.module->main();
    ir::Cloner locations(module_.get());
    for (const ir::Value* v : source.arguments()) {
      ir::Value* shard = module_->AddArgument(main_->body, values_.TypeOf(v));
      shard->location = locations.CloneLocation(v->location);
      values_[v] = {shard, values_.Decided(v), sums_.Unreduced(v)};
    }
    for (const ir::Value* v : source.arguments()) {
      emitter_.set_cause({Cause::Kind::kOrder, nullptr, v->index, {}, {}});
      ir::Value*& shard = values_[v].shard;
      shard = Reorder(shard, v, /*inward=*/true);
    }
    values_.Enter();
    for (const ir::Op* op : source.body->ops) {
      if (op->kind == ir::OpKind::kFuncReturn || op->kind == ir::OpKind::kReturn) {
        SHARDWAY_RETURN_IF_ERROR(Finish(*op));
        break;
      }
      SHARDWAY_RETURN_IF_ERROR(Visit(*op));
    }
    RunPasses();
    PerDevice result;
    result.uses_place = emitter_.Finish();
    main_->arg_attrs.resize(main_->body->arguments.size());
    result.collectives = emitter_.TakeSpecs();
    result.causes = emitter_.TakeCauses();
    result.module = std::move(module_);
    return result;
  }

 private:
  // Calls get their configuration when all passes are through: until then they all look alike.
  void NameForPeople(CollectiveCall& call, bool named) const {
    constexpr const char* kConfig = "backend_config";
    if (emitter_.backend() != Backend::kFfi) return;
    if (!named) return ir::Erase(call.op->attributes, kConfig);
    ir::AttrDict config;
    ir::Set(config, "op", call.spec.ToString());
    ir::Set(call.op->attributes, kConfig, std::make_shared<const ir::AttrDict>(std::move(config)));
  }

  void RunPasses() {
    const auto show = [&](std::string_view pass) {
      if (!options_.on_pass) return;
      for (CollectiveCall& call : emitter_.calls()) NameForPeople(call, /*named=*/true);
      options_.on_pass(pass, *module_);
      for (CollectiveCall& call : emitter_.calls()) NameForPeople(call, /*named=*/false);
    };
    ir::Region* body = main_->body;
    show("written");
    HoistCollectives(emitter_, body);
    show("hoisted");
    SinkCollectives(emitter_, body);
    show("sunk");
    WindowEinsums(emitter_, body, options_.windowed_einsum, options_.poison_padding);
    show("windowed");
    SendFirst(emitter_, body);
    show("sent-first");
    CombineAllReduces(emitter_, body);
    show("combined");
    CrossInSteps(emitter_, body, options_.island_steps);
    show("in-steps");
    CombineNeighbours(emitter_, body);
    show("neighbours-combined");
    OrderCollectives(emitter_, body);
    show("ordered");
  }

  // At the boundary: from the user's order of devices to the mesh's, or back.
  ir::Value* Reorder(ir::Value* shard, const ir::Value* v, bool inward) {
    const sharding::DeviceOrder order = program_.order_of(v);
    if (order == nullptr || (values_.Decided(v).replicated() && sums_.Unreduced(v) == 0)) {
      return shard;
    }
    Emitter::Pairs pairs;
    for (int64_t d = 0; d < program_.mesh.num_devices(); ++d) {
      const int64_t holder = (*order)[d];
      pairs.emplace_back(inward ? holder : d, inward ? d : holder);
    }
    return emitter_.PermuteDevices(shard, pairs);
  }

  absl::Status Finish(const ir::Op& op) {
    std::vector<ir::Value*> values;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ir::Value* v = op.operand(i);
      SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard,
                                sums_.Get(v, values_.Decided(v), sums_.Unreduced(v), op, i));
      emitter_.set_cause({Cause::Kind::kOrder, &op, static_cast<int>(i), {}, {}});
      shard = Reorder(shard, v, /*inward=*/false);
      values.push_back(shard);
      main_->result_types.push_back(shard->type);
    }
    main_->result_attrs.resize(values.size());
    emitter_.b().FuncReturn(values);
    return absl::OkStatus();
  }

  absl::Status Visit(const ir::Op& op) {
    if (!live_.IsLive(op) || IsCheapSource(op)) return absl::OkStatus();
    values_.GoTo(op);
    switch (op.kind) {
      case ir::OpKind::kWhile:
        return control_flow_.While(op);
      case ir::OpKind::kIf:
      case ir::OpKind::kCase:
        return control_flow_.Branches(op);
      case ir::OpKind::kOptimizationBarrier:
        return Barrier(op);
      case ir::OpKind::kSdyShardingConstraint:
      case ir::OpKind::kSdyPropagationBarrier: {
        if (sums_.Unreduced(op.result()) != 0) return sums_.Constrain(op);
        if (sums_.PassOn(op)) return absl::OkStatus();
        const ir::Value* v = op.operand(0);
        const Sharding& want = values_.Decided(op.result());
        SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard, values_.Get(v, want, op, 0));
        values_.Bind(op.result(), shard, want);
        return absl::OkStatus();
      }
      default:
        break;
    }
    if (program_.conversions.contains(&op)) return Conversion(op);
    return Plain(op);
  }

  // Nothing is computed: the shard of the whole is the whole of the shard.
  absl::Status Conversion(const ir::Op& op) {
    const AxisSet manual = program_.conversions.find(&op)->second;
    const bool to_shard = op.String("call_target_name") == kFullToShard;
    const ir::Value* whole = to_shard ? op.operand(0) : op.result();
    const ir::Value* part = to_shard ? op.result() : op.operand(0);
    Sharding outside = values_.Decided(whole);
    Sharding inside = outside;
    for (int d = 0; d < inside.rank(); ++d) {
      AxisList kept, split;
      for (const uint8_t atom : outside.dims[d]) {
        (sharding::Contains(manual, atom) ? split : kept).push_back(atom);
      }
      // Tiles of a part are tiles of the whole only where they divide it.
      if (!split.empty() && part->type.dims[d] % program_.mesh.SizeOf(kept) != 0) {
        kept.clear();
        outside.dims[d] = split;
      }
      inside.dims[d] = kept;
    }
    if (sharding::LocalType(part->type, inside, program_.mesh) !=
        sharding::LocalType(whole->type, outside, program_.mesh)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the manual region at ", op.location->ToString(), ": a value of type ",
          whole->type.ToString(), " split as ", ToString(values_.Decided(whole), program_.mesh),
          " is not of type ", part->type.ToString(), " on each device",
          op.Find("mhlo.sharding") == nullptr
              ? ""
              : absl::StrCat("; its sharding is \"", std::string(op.String("mhlo.sharding")),
                             "\"")));
    }
    // A region sees the parts over its own axes, and hands such back.
    const AxisSet parts = sums_.Unreduced(whole) & manual;
    if (to_shard) {
      SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard, sums_.Get(whole, outside, parts, op, 0));
      values_.Bind(op.result(), shard, inside);
      return absl::OkStatus();
    }
    SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard, values_.Get(op.operand(0), inside, op, 0));
    values_[whole] = {shard, outside, parts};
    if (const AxisSet wanted = sums_.Unreduced(whole); wanted != parts) {
      SHARDWAY_ASSIGN_OR_RETURN(shard, sums_.Get(whole, outside, wanted, op, 0));
      values_[whole] = {shard, outside, wanted};
    }
    return absl::OkStatus();
  }

  absl::Status Barrier(const ir::Op& op) {
    std::vector<ir::Value*> operands;
    std::vector<ir::Type> types;
    std::vector<Sharding> as;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const AxisSet parts = sums_.Unreduced(op.result(i));
      as.push_back(parts != 0 ? values_.Decided(op.result(i)) : values_.Passes(op, i));
      SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard,
                                sums_.Get(op.operand(i), as.back(), parts, op, i));
      operands.push_back(shard);
      types.push_back(shard->type);
    }
    ir::Op* barrier = emitter_.b().Create(op.kind, operands, types, op.attributes);
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ir::Value* v = op.result(i);
      values_[v] = {barrier->result(i), as[i], sums_.Unreduced(v)};
    }
    return absl::OkStatus();
  }

  absl::Status Plain(const ir::Op& op) {
    SHARDWAY_ASSIGN_OR_RETURN(const bool on_parts, sums_.OnParts(op));
    if (on_parts) return absl::OkStatus();
    std::vector<Sharding> have, want;
    for (const ir::Value* v : op.operands) {
      const bool made = v->def != nullptr && IsCheapSource(*v->def);
      const Local& local = values_[v];
      have.push_back(made || local.pending != 0 ? values_.Decided(v) : local.sharding);
    }
    for (const ir::Value* v : op.results) want.push_back(values_.Wanted(v));
    const auto operand_cost = [&](size_t i, const Sharding& here) {
      return values_.CostOf(op.operands[i], here);
    };
    const auto may_stay = [&](size_t i, const Sharding& here) {
      return values_.MayStay(op.result(i), here);
    };
    const double share = op.results.empty() ? 1 : sums_.Share(op.result());
    const auto choose = [&](const OpRule& rule) {
      return ChooseComputeSharding(op, rule, have, want, live_, program_.mesh,
                                   {operand_cost, may_stay}, share);
    };
    const OpRule& plain = values_.RuleOf(op);
    ComputeSharding chosen = choose(plain);
    std::optional<OpRule> cut = CutWhole(op, plain, have, want);
    if (cut) {
      if (ComputeSharding other = choose(*cut); other.cost < chosen.cost) {
        chosen = std::move(other);
      } else {
        cut.reset();
      }
    }
    const OpRule& rule = cut ? *cut : plain;
    const FactorAxes& axes = chosen.axes;
    LocalOp local{op, rule, axes, {}, {}, {}, {}, want, emitter_};
    if (!op.results.empty()) local.manual = program_.manual_of(op.result());
    for (size_t i = 0; i < op.operands.size(); ++i) {
      local.operand_shardings.push_back(FromFactors(rule, rule.operands[i], axes, program_.mesh));
      SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard,
                                values_.Get(op.operand(i), local.operand_shardings[i], op, i));
      if (options_.poison_padding)
        shard = PoisonPadding(emitter_, shard, op.operand(i)->type, local.operand_shardings[i]);
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
      if (!v->type.is_tensor() || !live_.IsUsed(v)) {
        values_.Bind(v, shard, local.result_shardings[i]);
        continue;
      }
      Sharding sharding = local.result_shardings[i];
      const int index = static_cast<int>(i);
      if (pending != 0 && rule.combine == collective::Reduction::kSum && op.results.size() == 1) {
        sums_.Bind(v, {shard, sharding, pending});
        continue;
      }
      if (pending != 0) {
        emitter_.set_cause({Cause::Kind::kPartial, &op, index, sharding, want[i]});
        shard = CombineParts(emitter_, *v, shard, rule.combine, pending, sharding, want[i]);
      }
      if (values_.MayStay(v, sharding)) {
        values_.Bind(v, shard, std::move(sharding));
        continue;
      }
      if (sharding != want[i]) {
        if (const ir::Op* by = values_.SettledBy(v)) {
          values_.GoTo(*by);
          emitter_.set_cause({Cause::Kind::kOperand, by, 0, sharding, want[i]});
        } else {
          emitter_.set_cause({Cause::Kind::kResult, &op, index, sharding, want[i]});
        }
      }
      shard = EmitReshard(emitter_, shard, v->type, sharding, want[i], program_.manual_of(v));
      values_.Bind(v, shard, want[i]);
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const PartitionOptions options_;
  Liveness live_;
  std::unique_ptr<ir::Module> module_;
  ir::Function* main_;
  Emitter emitter_;
  LocalValues values_;
  PartialSums sums_;
  ControlFlow control_flow_;
};

}  // namespace

absl::StatusOr<PerDevice> Partition(const Program& program, const Rules& rules,
                                    const std::vector<Sharding>& shardings,
                                    const PartitionOptions& options) {
  return Partitioner(program, rules, shardings, options).Run();
}

}  // namespace shardway::spmd
