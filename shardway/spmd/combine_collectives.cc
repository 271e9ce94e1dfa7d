// An operator's *level* in its region is the number of all-reduces on the longest way to it.
// All-reduces of one level do not depend on each other; and ordered by level (the all-reduces of a
// level last, otherwise as before), every operator still comes after what it uses.
#include "shardway/spmd/combine_collectives.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "shardway/spmd/combined_call.h"
#include "shardway/spmd/replace_uses.h"

namespace shardway::spmd {
namespace {

using collective::Spec;

class Combiner {
 public:
  explicit Combiner(Emitter& emitter) : combined_(emitter) {
    for (const CollectiveCall& call : emitter.calls()) {
      if (call.spec.kind != collective::Kind::kAllReduce) continue;
      all_reduces_.emplace(call.op, call.spec);
      causes_.emplace(call.op, call.cause);
    }
  }

  void Visit(ir::Region* region) {
    for (ir::Op* op : region->ops) {
      for (ir::Region* inner : op->regions) Visit(inner);
    }
    FindGroups(*region);
    if (!groups_.empty()) Rewrite(region);
  }

  // Values that an all-reduce gave, now given by the combined one.
  const absl::flat_hash_map<const ir::Value*, ir::Value*>& replaced() const {
    return combined_.replaced();
  }

 private:
  struct Group {
    std::vector<ir::Op*> members;
    int64_t bytes = 0;
  };

  int LevelOf(const ir::Op& op) const {
    int level = 0;
    for (const ir::Value* v : op.operands) {
      if (auto it = value_levels_.find(v); it != value_levels_.end())
        level = std::max(level, it->second);
    }
    for (const ir::Region* inner : op.regions) {
      for (const ir::Op* nested : inner->ops) level = std::max(level, LevelOf(*nested));
    }
    return level;
  }

  void FindGroups(const ir::Region& region) {
    value_levels_.clear();
    levels_.clear();
    groups_.clear();
    std::map<std::tuple<int, int, int, std::string>, Group> open;
    for (ir::Op* op : region.ops) {
      const int level = LevelOf(*op);
      const auto spec = all_reduces_.find(op);
      const bool reduces = spec != all_reduces_.end();
      levels_[op] = 2 * level + (reduces ? 1 : 0);
      if (level > 0 || reduces) {
        for (const ir::Value* v : op->results) value_levels_[v] = level + (reduces ? 1 : 0);
      }
      if (!reduces) continue;
      int64_t bytes = 0;
      bool uniform = true;
      for (const ir::Value* v : op->operands) {
        bytes += v->type.num_bytes();
        uniform &= v->type.element == op->operand(0)->type.element;
      }
      if (bytes > kMaxCombinedOperandBytes || !uniform || op->operands.empty()) continue;
      Group& group =
          open[{level, static_cast<int>(spec->second.reduction),
                static_cast<int>(op->operand(0)->type.element), LikenessOf(spec->second)}];
      if (group.bytes + bytes > kMaxCombinedBytes) Close(group);
      group.members.push_back(op);
      group.bytes += bytes;
    }
    for (auto& [key, group] : open) Close(group);
  }

  void Close(Group& group) {
    if (group.members.size() > 1) groups_.push_back(group.members);
    group = Group();
  }

  void Rewrite(ir::Region* region) {
    // The combined call takes the place of the last member.
    for (const auto& members : groups_) {
      const ir::Op* first = members.front();
      for (ir::Op* op : combined_.Add(members, all_reduces_.at(first), causes_.at(first),
                                      members.back(), region)) {
        levels_[op] = levels_[first];
      }
    }
    combined_.PutInto(region);
    std::vector<ir::Op*>& ops = region->ops;
    std::stable_sort(ops.begin(), std::prev(ops.end()), [&](const ir::Op* a, const ir::Op* b) {
      return levels_.at(a) < levels_.at(b);
    });
  }

  absl::flat_hash_map<const ir::Op*, Spec> all_reduces_;
  absl::flat_hash_map<const ir::Op*, Cause> causes_;
  absl::flat_hash_map<const ir::Value*, int> value_levels_;  // of this region; 0 where absent
  absl::flat_hash_map<const ir::Op*, int> levels_;
  std::vector<std::vector<ir::Op*>> groups_;
  CombinedCalls combined_;
};

}  // namespace

void CombineAllReduces(Emitter& emitter, ir::Region* region) {
  const ir::Location* location = emitter.b().location();
  ir::Region* place = emitter.b().region();
  Combiner combiner(emitter);
  combiner.Visit(region);
  emitter.b().set_region(place);
  emitter.b().set_location(location);
  if (!combiner.replaced().empty()) ReplaceUses(*region, combiner.replaced());
}

}  // namespace shardway::spmd
