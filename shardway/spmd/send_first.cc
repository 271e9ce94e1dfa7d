#include "shardway/spmd/send_first.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "shardway/spmd/compute_sharding.h"
#include "shardway/spmd/replace_uses.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

// The same number everywhere.
bool IsSplat(const ir::Value* v) {
  if (v->def == nullptr) return false;
  if (v->def->kind == ir::OpKind::kBroadcastInDim) return IsSplat(v->def->operand(0));
  return v->def->kind == ir::OpKind::kConstant && IsCheapSource(*v->def);
}

class Pass {
 public:
  explicit Pass(ir::Region* body) : body_(body) {
    for (const ir::Op* op : body->ops) AddUses(*op, op);
  }

  void Visit(ir::Op* permute) {
    ir::Value* const computed = permute->operand(0);
    ir::Value* from = computed;
    ir::Op* first = nullptr;  // of the operators between
    while (from->def != nullptr && from->def->parent == body_ && users_.at(from) != kSeveral) {
      ir::Value* operand = OnlyOperand(*from->def);
      if (operand == nullptr || operand->type != computed->type) return;
      first = from->def;
      from = operand;
    }
    if (first == nullptr || from->def != nullptr) return;
    ReplaceUses(*body_, {{permute->result(), computed}});
    permute->operands = {from};
    std::replace(first->operands.begin(), first->operands.end(), from, permute->result());
    std::vector<ir::Op*>& ops = body_->ops;
    const auto place = std::find(ops.begin(), ops.end(), first);
    const auto was = std::find(place, ops.end(), permute);
    std::rotate(place, was, was + 1);
  }

 private:
  static constexpr const ir::Op* kSeveral = nullptr;

  void AddUses(const ir::Op& op, const ir::Op* outer) {
    for (const ir::Value* v : op.operands) {
      const auto [it, is_new] = users_.emplace(v, outer);
      if (!is_new && it->second != outer) it->second = kSeveral;
    }
    for (const ir::Region* inner : op.regions) {
      for (const ir::Op* nested : inner->ops) AddUses(*nested, outer);
    }
  }

  // What an elementwise operator maps, beside splats; null where that is not one value.
  static ir::Value* OnlyOperand(const ir::Op& op) {
    if (RoomOf(op.kind).rule != ElementwiseRule || op.results.size() != 1) return nullptr;
    ir::Value* only = nullptr;
    for (ir::Value* v : op.operands) {
      if (IsSplat(v) || v == only) continue;
      if (only != nullptr) return nullptr;
      only = v;
    }
    return only;
  }

  ir::Region* body_;
  absl::flat_hash_map<const ir::Value*, const ir::Op*> users_;  // of this region
};

}  // namespace

void SendFirst(Emitter& emitter, ir::Region* body) {
  std::vector<ir::Op*> permutes;
  for (const CollectiveCall& call : emitter.calls()) {
    const bool all_receive =
        static_cast<int64_t>(call.spec.pairs.size()) == call.spec.groups.group_size();
    if (call.spec.kind == collective::Kind::kCollectivePermute && all_receive &&
        call.op->parent == body && call.op->operands.size() == 1) {
      permutes.push_back(call.op);
    }
  }
  if (permutes.empty()) return;
  Pass pass(body);
  for (ir::Op* permute : permutes) pass.Visit(permute);
}

}  // namespace shardway::spmd
