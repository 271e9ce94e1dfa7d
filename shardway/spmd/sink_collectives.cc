#include "shardway/spmd/sink_collectives.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "shardway/spmd/effects.h"

namespace shardway::spmd {
namespace {

class Sinker {
 public:
  explicit Sinker(Emitter& emitter) : emitter_(emitter) {
    for (const CollectiveCall& call : emitter.calls()) collectives_.insert(call.op);
  }

  void Run(ir::Region* region) {
    FindUsers(*region);
    Visit(region);
  }

 private:
  void FindUsers(const ir::Region& region) {
    for (ir::Op* op : region.ops) {
      for (const ir::Value* v : op->operands) users_[v].push_back(op);
      for (const ir::Region* inner : op->regions) FindUsers(*inner);
    }
  }

  // From outside to inside: what has come into a branch may go on into one in it.
  void Visit(ir::Region* region) {
    bool branches = false;
    for (const ir::Op* op : region->ops) branches |= IsBranch(*op) && emitter_.TakenAlike(*op);
    if (branches) Sink(region);
    for (const ir::Op* op : region->ops) {
      for (ir::Region* inner : op->regions) Visit(inner);
    }
  }

  void Sink(ir::Region* region) {
    absl::flat_hash_map<const ir::Op*, ir::Region*> goes;  // where all that takes it is
    for (size_t i = region->ops.size(); i-- > 0;) {
      const ir::Op* op = region->ops[i];
      if (!collectives_.contains(op) && !IsPure(*op)) continue;
      if (ir::Region* branch = BranchOf(*op, goes)) goes.emplace(op, branch);
    }
    absl::flat_hash_map<ir::Region*, std::vector<ir::Op*>> moved;
    absl::flat_hash_set<const ir::Op*> gone;
    std::vector<ir::Op*> left;
    for (ir::Op* op : region->ops) {
      const auto branch = goes.find(op);
      bool moves = branch != goes.end() && collectives_.contains(op);
      for (const ir::Value* v : op->operands) moves |= v->def != nullptr && gone.contains(v->def);
      if (!moves || branch == goes.end()) {
        left.push_back(op);
        continue;
      }
      gone.insert(op);
      moved[branch->second].push_back(op);
    }
    region->ops = std::move(left);
    for (auto& [branch, ops] : moved) {
      for (ir::Op* op : ops) op->parent = branch;
      branch->ops.insert(branch->ops.begin(), ops.begin(), ops.end());
    }
  }

  // The one branch beside `op` in which all is that takes its results, or null.
  ir::Region* BranchOf(const ir::Op& op,
                       const absl::flat_hash_map<const ir::Op*, ir::Region*>& goes) const {
    ir::Region* found = nullptr;
    for (const ir::Value* v : op.results) {
      const auto users = users_.find(v);
      if (users == users_.end()) continue;
      for (const ir::Op* user : users->second) {
        ir::Region* branch = nullptr;
        if (user->parent != op.parent) {
          branch = BranchAround(*user, op.parent);
        } else if (const auto it = goes.find(user); it != goes.end()) {
          branch = it->second;
        }
        if (branch == nullptr || (found != nullptr && found != branch)) return nullptr;
        found = branch;
      }
    }
    return found;
  }

  // The branch in `region` that `op`, somewhere inside of it, is in; null where that is no branch.
  ir::Region* BranchAround(const ir::Op& op, const ir::Region* region) const {
    ir::Region* around = op.parent;
    while (around->parent->parent != region) around = around->parent->parent;
    return IsBranch(*around->parent) && emitter_.TakenAlike(*around->parent) ? around : nullptr;
  }

  const Emitter& emitter_;
  absl::flat_hash_set<const ir::Op*> collectives_;
  absl::flat_hash_map<const ir::Value*, std::vector<ir::Op*>> users_;
};

}  // namespace

void SinkCollectives(Emitter& emitter, ir::Region* region) {
  if (!emitter.calls().empty()) Sinker(emitter).Run(region);
}

}  // namespace shardway::spmd
