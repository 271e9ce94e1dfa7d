#include "shardway/spmd/turn_sorts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "shardway/spmd/replace_uses.h"
#include "shardway/spmd/sort_order.h"

namespace shardway::spmd {
namespace {

class Turner {
 public:
  explicit Turner(Program& program) : program_(program), users_(program.module->num_values()) {
    FindUsers(*program.module->main()->body);
    for (const auto& group : program.groups) grouped_.insert(group.begin(), group.end());
  }

  void Run() {
    ir::Region& body = *program_.module->main()->body;
    Visit(body);
    if (!replaced_.empty()) ReplaceUses(body, replaced_);
  }

 private:
  void FindUsers(const ir::Region& region) {
    for (const ir::Op* op : region.ops) {
      for (const ir::Value* v : op->operands) users_[v->id].push_back(op);
      for (const ir::Region* inner : op->regions) FindUsers(*inner);
    }
  }

  void Visit(const ir::Region& region) {
    for (ir::Op* op : region.ops) {
      if (op->kind == ir::OpKind::kSort && !op->operands.empty()) Turn(*op);
      for (const ir::Region* inner : op->regions) Visit(*inner);
    }
  }

  void Turn(ir::Op& sort) {
    const bool before = ReversedBefore(sort);
    const bool after = ReversedAfter(sort);
    if (before != after && !TiesAreAlike(sort)) return;
    if (before) {
      for (ir::Value*& v : sort.operands) v = v->def->operand(0);
    }
    if (!after) return;
    std::vector<ir::Value*>& arguments = sort.regions[0]->arguments;
    for (size_t i = 0; i + 1 < arguments.size(); i += 2) {
      std::swap(arguments[i], arguments[i + 1]);
      std::swap(arguments[i]->index, arguments[i + 1]->index);
    }
    for (ir::Value* v : sort.results) {
      for (const ir::Op* reverse : users_[v->id]) {
        replaced_[reverse->result()] = v;
        const auto said = program_.annotations.find(reverse->result()->id);
        if (said != program_.annotations.end()) {
          auto annotation = said->second;
          program_.annotations[v->id] = std::move(annotation);
        }
      }
    }
  }

  // Along the sorted dimension and no other.
  bool Reverses(const ir::Op* op, const ir::Op& sort) const {
    return op != nullptr && op->kind == ir::OpKind::kReverse &&
           op->IntList("dimensions") == std::vector<int64_t>{SortedDim(sort)};
  }
  // What the user has said of a value holds for it as it is.
  bool Said(const ir::Value* v) const {
    return program_.annotations.contains(v->id) || grouped_.contains(v);
  }

  bool ReversedBefore(const ir::Op& sort) const {
    return std::all_of(sort.operands.begin(), sort.operands.end(), [&](const ir::Value* v) {
      return Reverses(v->def, sort) && !Said(v) && !replaced_.contains(v);
    });
  }
  bool ReversedAfter(const ir::Op& sort) const {
    bool any = false;
    for (const ir::Value* v : sort.results) {
      const std::vector<const ir::Op*>& users = users_[v->id];
      for (const ir::Op* user : users) {
        if (!Reverses(user, sort) || grouped_.contains(user->result())) return false;
        // Its annotation becomes the sort's.
        if (users.size() > 1 && Said(user->result())) return false;
        any = true;
      }
      if (Said(v)) return false;
    }
    return any;
  }

  Program& program_;
  std::vector<std::vector<const ir::Op*>> users_;  // by Value::id
  absl::flat_hash_set<const ir::Value*> grouped_;
  absl::flat_hash_map<const ir::Value*, ir::Value*> replaced_;
};

}  // namespace

void TurnSorts(Program& program) { Turner(program).Run(); }

}  // namespace shardway::spmd
