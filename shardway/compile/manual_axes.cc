#include "shardway/compile/manual_axes.h"

namespace shardway::compile {
namespace {

using sharding::AxisSet;

class Inference {
 public:
  explicit Inference(spmd::Program& program) : program_(program) {}

  // Masks only grow; loops may need several rounds.
  void Run() {
    do {
      changed_ = false;
      Walk(*program_.module->main()->body);
    } while (changed_);
  }

 private:
  AxisSet Of(const ir::Value* v) const { return program_.manual[v->id]; }
  void Add(const ir::Value* v, AxisSet set) {
    AxisSet& mine = program_.manual[v->id];
    if ((mine | set) == mine) return;
    mine |= set;
    changed_ = true;
  }

  void Walk(const ir::Region& region) {
    for (const ir::Op* op : region.ops) Visit(*op);
  }

  void Visit(const ir::Op& op) {
    if (auto it = program_.conversions.find(&op); it != program_.conversions.end()) {
      if (op.String("call_target_name") == spmd::kFullToShard) {
        Add(op.result(), Of(op.operand(0)) | it->second);
      } else {
        const AxisSet outside = program_.annotations[op.result()->id].manual;
        it->second = Of(op.operand(0)) & ~outside;
        Add(op.result(), outside);
      }
      return;
    }
    AxisSet set = 0;
    for (const ir::Value* v : op.operands) set |= Of(v);
    if (op.kind == ir::OpKind::kSdyShardingConstraint) {
      set |= program_.annotations[op.result()->id].manual;
    }
    for (const ir::Region* body : op.regions) {
      for (size_t i = 0; i < body->arguments.size(); ++i) {
        Add(body->arguments[i], op.kind == ir::OpKind::kWhile ? Of(op.operand(i)) : set);
      }
      Walk(*body);
      if (op.kind != ir::OpKind::kWhile && op.kind != ir::OpKind::kIf &&
          op.kind != ir::OpKind::kCase) {
        continue;
      }
      const ir::Op* last = body->terminator();
      const bool condition = op.kind == ir::OpKind::kWhile && body == op.regions[0];
      for (size_t i = 0; !condition && i < op.results.size(); ++i) {
        Add(op.results[i], Of(last->operands[i]));
        if (op.kind == ir::OpKind::kWhile) {
          for (const ir::Region* region : op.regions)
            Add(region->arguments[i], Of(last->operands[i]));
        }
      }
    }
    if (op.kind == ir::OpKind::kWhile) {
      for (size_t i = 0; i < op.results.size(); ++i) Add(op.results[i], Of(op.operands[i]));
    } else {
      for (const ir::Value* v : op.results) Add(v, set);
    }
  }

  spmd::Program& program_;
  bool changed_ = false;
};

}  // namespace

absl::Status InferManualAxes(spmd::Program& program) {
  Inference(program).Run();
  return absl::OkStatus();
}

}  // namespace shardway::compile
