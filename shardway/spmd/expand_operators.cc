#include "shardway/spmd/expand_operators.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/ir/verify.h"
#include "shardway/spmd/expansion.h"

namespace shardway::spmd {
namespace {

using K = ir::OpKind;

// Up to sizes that `said` leaves open.
bool IsOfType(const ir::Type& type, const ir::Type& said) {
  if (!type.is_tensor() || !said.is_tensor()) return type == said;
  bool same = type.element == said.element && type.rank() == said.rank();
  for (int d = 0; same && d < said.rank(); ++d)
    same = said.dims[d] == ir::kDynamic || said.dims[d] == type.dims[d];
  return same;
}

bool IsStatic(const ir::Value* v) { return !v->type.is_tensor() || v->type.is_static(); }

class Expander {
 public:
  explicit Expander(Program& program)
      : program_(program),
        module_(*program.module),
        alone_(program.mesh.num_devices() == 1),
        b_(&module_, nullptr) {}

  absl::Status Run() {
    ir::Region& body = *module_.main()->body;
    SHARDWAY_RETURN_IF_ERROR(Visit(body));
    program_.manual.resize(module_.num_values(), 0);
    if (!tuples_.empty()) DropTuples();
    if (replaced_.empty()) return absl::OkStatus();
    for (auto& group : program_.groups) {
      for (const ir::Value*& v : group) {
        if (const auto at = replaced_.find(v); at != replaced_.end()) v = at->second;
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Visit(ir::Region& region) {
    for (const ir::Value* v : region.arguments) {
      if (alone_ || IsStatic(v)) continue;
      return absl::UnimplementedError(
          absl::StrCat("argument ", v->index, " of ",
                       region.parent == nullptr ? "the program" : "a loop or branch", ", a ",
                       v->type.ToString(), ": its size is known only when the program runs"));
    }
    const std::vector<ir::Op*> ops = std::exchange(region.ops, {});
    region.ops.reserve(ops.size());
    for (ir::Op* op : ops) {
      if (!replaced_.empty()) {
        for (ir::Value*& v : op->operands) {
          if (const auto at = replaced_.find(v); at != replaced_.end()) v = at->second;
        }
      }
      if (op->kind == K::kAsyncStart) {
        SHARDWAY_RETURN_IF_ERROR(Start(*op, region));
        continue;
      }
      if (IsExpanded(op->kind)) {
        SHARDWAY_RETURN_IF_ERROR(Replace(*op, region));
        continue;
      }
      SHARDWAY_RETURN_IF_ERROR(Check(*op));
      region.ops.push_back(op);
      if (op->kind != K::kWhile && op->kind != K::kIf && op->kind != K::kCase) continue;
      for (ir::Region* inner : op->regions) SHARDWAY_RETURN_IF_ERROR(Visit(*inner));
    }
    return absl::OkStatus();
  }

  // Of an operator that stays.
  absl::Status Check(const ir::Op& op) const {
    if (!futures_.empty()) {
      for (const ir::Value* v : op.operands) {
        if (futures_.contains(v)) return Malformed(op, "it takes what only an async_done may take");
      }
    }
    if (alone_ || std::all_of(op.results.begin(), op.results.end(), IsStatic))
      return absl::OkStatus();
    return NotKnown(op, "the size of its result is");
  }

  absl::Status Replace(ir::Op& op, ir::Region& region) {
    // They are among the program's annotations.
    ir::Erase(op.attributes, "mhlo.sharding");
    ir::Erase(op.attributes, "sdy.sharding");
    b_.set_region(&region);
    b_.set_location(op.location);
    const uint32_t first_new = module_.num_values();
    const size_t before = region.ops.size();
    Expansion expansion = std::vector<ir::Value*>{};
    if (std::all_of(op.operands.begin(), op.operands.end(), IsStatic)) expansion = Expand(op);
    if (alone_ && absl::IsUnimplemented(expansion.status())) expansion = std::vector<ir::Value*>{};
    SHARDWAY_ASSIGN_OR_RETURN(const std::vector<ir::Value*> results, std::move(expansion));
    for (size_t i = before; i < region.ops.size(); ++i) {
      if (const absl::Status made = ir::VerifyOp(module_, *region.ops[i]); !made.ok())
        return Malformed(op, absl::StrCat("in it, ", std::string(made.message())));
    }
    if (results.empty()) {
      SHARDWAY_RETURN_IF_ERROR(Check(op));
      region.ops.push_back(&op);
      return absl::OkStatus();
    }
    if (results.size() != op.results.size())
      return Malformed(op, "it has not the results of what was started");
    for (size_t i = 0; i < results.size(); ++i) {
      if (!IsOfType(results[i]->type, op.results[i]->type)) {
        return Malformed(op, absl::StrCat("its result is a ", results[i]->type.ToString(),
                                          ", not a ", op.results[i]->type.ToString()));
      }
      Stand(op.results[i], results[i], first_new);
    }
    const AxisSet manual = program_.manual_of(op.results[0]);
    if (manual != 0) {
      program_.manual.resize(module_.num_values(), 0);
      for (uint32_t id = first_new; id < module_.num_values(); ++id) program_.manual[id] = manual;
    }
    return absl::OkStatus();
  }

  // `by` is in the place of `v`. What the user has said of `v` holds for what is new; of a value
  // that was there before, for another value that is the same.
  void Stand(const ir::Value* v, ir::Value* by, uint32_t first_new) {
    const auto at = program_.annotations.find(v->id);
    if (at != program_.annotations.end() && v->type.is_tensor()) {
      Annotation said = std::move(at->second);
      program_.annotations.erase(at);
      if (by->id < first_new)
        by = b_.Create(K::kSdyShardingConstraint, {&by, 1}, {&by->type, 1})->result();
      program_.annotations[by->id] = std::move(said);
    }
    replaced_[v] = by;
  }

  Expansion Expand(ir::Op& op) {
    switch (op.kind) {
      case K::kDot:
        return ExpandDot(op, b_);
      case K::kEinsum:
      case K::kUnaryEinsum:
        return ExpandEinsum(op, b_);
      case K::kBatchNormInference:
        return ExpandBatchNormInference(op, b_);
      case K::kBatchNormTraining:
        return ExpandBatchNormTraining(op, b_);
      case K::kBatchNormGrad:
        return ExpandBatchNormGrad(op, b_);
      case K::kBroadcast:
        return ExpandBroadcast(op, b_);
      case K::kTorchIndexSelect:
        return ExpandTorchIndexSelect(op, b_);
      case K::kDynamicBroadcastInDim:
      case K::kDynamicReshape:
      case K::kDynamicIota:
        return ExpandShapedByType(op, b_);
      case K::kDynamicGather:
        return ExpandDynamicGather(op, b_);
      case K::kDynamicPad:
        return ExpandDynamicPad(op, b_, ints_);
      case K::kDynamicConv:
        return ExpandDynamicConv(op, b_, ints_);
      case K::kRealDynamicSlice:
        return ExpandRealDynamicSlice(op, b_, ints_);
      case K::kGetDimensionSize:
        return ExpandGetDimensionSize(op, b_);
      case K::kSetDimensionSize:
        return ExpandSetDimensionSize(op, ints_);
      case K::kAsyncDone:
        return futures_[op.operand(0)];
      case K::kTuple:
        tuples_.push_back(&op);
        return std::vector<ir::Value*>{};
      default:
        return ElementOfTuple(op);
    }
  }

  // What is started is done here: when it is sent is for order_collectives.h to say.
  absl::Status Start(const ir::Op& op, ir::Region& region) {
    ir::Region& inner = *op.regions[0];
    if (inner.arguments.size() != op.operands.size())
      return Malformed(op, "what it starts takes other operands");
    for (size_t i = 0; i < inner.arguments.size(); ++i)
      replaced_[inner.arguments[i]] = op.operands[i];
    SHARDWAY_RETURN_IF_ERROR(Visit(inner));
    const AxisSet manual = program_.manual_of(op.result());
    program_.manual.resize(module_.num_values(), 0);
    for (ir::Op* started : inner.ops) {
      if (started == inner.terminator()) break;
      started->parent = &region;
      region.ops.push_back(started);
      for (const ir::Value* v : started->results) program_.manual[v->id] = manual;
    }
    futures_[op.result()] = inner.terminator()->operands;
    return absl::OkStatus();
  }

  // Of a tuple that an operator gives (a custom call) it stays.
  Expansion ElementOfTuple(const ir::Op& op) {
    const ir::Op* tuple = op.operand(0)->def;
    if (tuple == nullptr || tuple->kind != K::kTuple) return std::vector<ir::Value*>{};
    return std::vector<ir::Value*>{tuple->operand(static_cast<int>(op.Int("index")))};
  }

  // Those that nothing takes as tuples any more.
  void DropTuples() {
    ir::Region& body = *module_.main()->body;
    absl::flat_hash_map<const ir::Value*, int> uses;
    CountTuples(body, uses);
    absl::flat_hash_set<const ir::Op*> dead;
    for (size_t i = tuples_.size(); i-- > 0;) {
      if (uses[tuples_[i]->result()] != 0) continue;
      dead.insert(tuples_[i]);
      for (const ir::Value* v : tuples_[i]->operands) --uses[v];
    }
    Drop(body, dead);
  }
  static void CountTuples(const ir::Region& region,
                          absl::flat_hash_map<const ir::Value*, int>& uses) {
    for (const ir::Op* op : region.ops) {
      for (const ir::Value* v : op->operands) uses[v] += v->type.is_tuple() ? 1 : 0;
      for (const ir::Region* inner : op->regions) CountTuples(*inner, uses);
    }
  }
  static void Drop(ir::Region& region, const absl::flat_hash_set<const ir::Op*>& dead) {
    std::erase_if(region.ops, [&dead](const ir::Op* op) { return dead.contains(op); });
    for (const ir::Op* op : region.ops) {
      for (ir::Region* inner : op->regions) Drop(*inner, dead);
    }
  }

  Program& program_;
  ir::Module& module_;
  const bool alone_;  // nothing is split: XLA may have what is not known
  ir::Builder b_;
  ConstantInts ints_;
  absl::flat_hash_map<const ir::Value*, ir::Value*> replaced_;
  std::vector<const ir::Op*> tuples_;
  absl::flat_hash_map<const ir::Value*, std::vector<ir::Value*>> futures_;
};

}  // namespace

absl::Status ExpandOperators(Program& program) { return Expander(program).Run(); }

bool IsExpanded(ir::OpKind kind) {
  switch (kind) {
    case K::kDot:
    case K::kEinsum:
    case K::kUnaryEinsum:
    case K::kBatchNormInference:
    case K::kBatchNormTraining:
    case K::kBatchNormGrad:
    case K::kBroadcast:
    case K::kTorchIndexSelect:
    case K::kDynamicBroadcastInDim:
    case K::kDynamicReshape:
    case K::kDynamicIota:
    case K::kDynamicGather:
    case K::kDynamicPad:
    case K::kDynamicConv:
    case K::kRealDynamicSlice:
    case K::kGetDimensionSize:
    case K::kSetDimensionSize:
    case K::kTuple:
    case K::kGetTupleElement:
    case K::kAsyncStart:
    case K::kAsyncDone:
      return true;
    default:
      return false;
  }
}

}  // namespace shardway::spmd
