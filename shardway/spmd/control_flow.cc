#include "shardway/spmd/control_flow.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"

namespace shardway::spmd {

absl::Status ControlFlow::Body(const ir::Region& from, ir::Region* to,
                               const std::vector<Want>& wants) {
  ir::Builder& b = values_.emitter().b();
  ir::Region* outer = b.region();
  const ir::Location* location = b.location();
  b.set_region(to);
  values_.Enter();
  for (const ir::Value* v : from.arguments) {
    ir::Value* argument = values_.emitter().module()->AddArgument(to, values_.TypeOf(v));
    values_[v] = {argument, values_.Decided(v), sums_.Unreduced(v)};
  }
  for (const ir::Op* op : from.ops) {
    if (op->kind != ir::OpKind::kReturn) {
      SHARDWAY_RETURN_IF_ERROR(visit_(*op));
      continue;
    }
    std::vector<ir::Value*> results;
    for (size_t i = 0; i < op->operands.size(); ++i) {
      if (sums_.Accumulates(op->operand(i))) {
        results.push_back(values_[op->operand(i)].shard);
        continue;
      }
      SHARDWAY_ASSIGN_OR_RETURN(ir::Value * shard, sums_.Get(op->operand(i), wants[i].sharding,
                                                             wants[i].unreduced, *op, i));
      results.push_back(shard);
    }
    b.Return(results);
  }
  values_.Leave();
  b.set_region(outer);
  b.set_location(location);
  return absl::OkStatus();
}

absl::Status ControlFlow::Prepare(const ir::Op& op, ir::Op* loop,
                                  const std::vector<LoopHoisting::Hoisted>& hoisted) {
  ir::Module* module = values_.emitter().module();
  for (const LoopHoisting::Hoisted& state : hoisted) {
    SHARDWAY_ASSIGN_OR_RETURN(
        ir::Value * shard, values_.Get(op.operand(state.index), state.sharding, op, state.index));
    loop->operands.push_back(shard);
    module->AddResult(loop, shard->type);
    module->AddArgument(loop->regions[0], shard->type);
    loop->regions[1]->terminator()->operands.push_back(state.argument);
  }
  const std::vector<ir::Value*>& next = op.regions[1]->terminator()->operands;
  for (size_t i = 0; i < next.size(); ++i) {
    if (!sums_.Accumulates(next[i])) continue;
    SHARDWAY_ASSIGN_OR_RETURN(ir::Value * first, sums_.FirstParts(op, i, next[i]));
    loop->operands[i] = first;
    loop->results[i]->type = first->type;
    loop->regions[0]->arguments[i]->type = first->type;
  }
  return absl::OkStatus();
}

absl::Status ControlFlow::While(const ir::Op& op) {
  // The state is laid out as the body's arguments; the condition's have the same by propagation.
  Emitter& emitter = values_.emitter();
  const ir::Region& body = *op.regions[1];
  std::vector<ir::Value*> operands;
  std::vector<ir::Type> types;
  std::vector<Want> state;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    state.push_back(WantOf(body.arguments[i]));
    SHARDWAY_ASSIGN_OR_RETURN(
        ir::Value * shard, sums_.Get(op.operand(i), state[i].sharding, state[i].unreduced, op, i));
    operands.push_back(shard);
    types.push_back(shard->type);
    if (values_.Decided(op.regions[0]->arguments[i]) != state[i].sharding) {
      return absl::InternalError(absl::StrCat("the loop at ", op.location->ToString(),
                                              ": condition and body disagree about its state"));
    }
  }
  ir::Op* loop = emitter.b().Create(ir::OpKind::kWhile, operands, types);
  const std::vector<Want> scalar = {{Sharding::Replicated(0)}};
  SHARDWAY_RETURN_IF_ERROR(Body(*op.regions[0], emitter.module()->AddRegion(loop), scalar));
  ir::Region* new_body = emitter.module()->AddRegion(loop);
  values_.hoisting().Enter(&body, new_body, values_.depth());
  SHARDWAY_RETURN_IF_ERROR(Body(body, new_body, state));
  SHARDWAY_RETURN_IF_ERROR(Prepare(op, loop, values_.hoisting().Leave()));
  // What prepares the loop was written after it.
  std::vector<ir::Op*>& outer = emitter.b().region()->ops;
  const auto at = std::find(outer.begin(), outer.end(), loop);
  std::rotate(at, at + 1, outer.end());
  for (size_t i = 0; i < op.results.size(); ++i) {
    const ir::Value* next = body.terminator()->operand(i);
    if (sums_.Accumulates(next)) {
      const Local& parts = values_[next];
      sums_.Bind(op.result(i), {loop->result(i), parts.sharding, parts.pending});
    } else {
      values_[op.result(i)] = {loop->result(i), state[i].sharding, state[i].unreduced};
    }
  }
  return absl::OkStatus();
}

absl::Status ControlFlow::Branches(const ir::Op& op) {
  std::vector<ir::Type> types;
  std::vector<Want> wants;
  for (const ir::Value* v : op.results) {
    wants.push_back(WantOf(v));
    types.push_back(values_.TypeOf(v));
  }
  SHARDWAY_ASSIGN_OR_RETURN(ir::Value * index,
                            values_.Get(op.operand(0), Sharding::Replicated(0), op, 0));
  Emitter& emitter = values_.emitter();
  ir::Op* branches = emitter.b().Create(op.kind, {&index, 1}, types);
  // In a manual region each device may have an index of its own, and so may replicas.
  if (values_.program().manual_of(op.operand(0)) == 0 && emitter.num_replicas() == 1)
    emitter.SetTakenAlike(*branches);
  for (const ir::Region* region : op.regions) {
    SHARDWAY_RETURN_IF_ERROR(Body(*region, emitter.module()->AddRegion(branches), wants));
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    values_[op.result(i)] = {branches->result(i), wants[i].sharding, wants[i].unreduced};
  }
  return absl::OkStatus();
}

}  // namespace shardway::spmd
