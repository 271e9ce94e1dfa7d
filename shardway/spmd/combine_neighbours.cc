#include "shardway/spmd/combine_neighbours.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "shardway/spmd/combined_call.h"
#include "shardway/spmd/replace_uses.h"

namespace shardway::spmd {
namespace {

using collective::Kind;

int64_t Bytes(const ir::Op& op) {
  int64_t bytes = 0;
  for (const ir::Value* v : op.operands) bytes += v->type.num_bytes();
  for (const ir::Value* v : op.results) bytes += v->type.num_bytes();
  return bytes;
}

bool MayCombine(const CollectiveCall& call) {
  switch (call.spec.kind) {
    case Kind::kAllGather:
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
    case Kind::kCollectivePermute:
      return Bytes(*call.op) <= kMaxNeighbourBytes;
    case Kind::kAllReduce:
    case Kind::kCollectiveBroadcast:
    case Kind::kRaggedAllToAll:
      return false;
  }
  return false;
}

class Combiner {
 public:
  explicit Combiner(Emitter& emitter) : combined_(emitter) {
    for (const CollectiveCall& call : emitter.calls()) {
      if (MayCombine(call)) calls_.emplace(call.op, Call{call.spec, call.cause});
    }
  }
  bool empty() const { return calls_.empty(); }

  void Visit(ir::Region* region) {
    for (ir::Op* op : region->ops) {
      for (ir::Region* inner : op->regions) Visit(inner);
    }
    FindGroups(*region);
    Rewrite(region);
  }

  const absl::flat_hash_map<const ir::Value*, ir::Value*>& replaced() const {
    return combined_.replaced();
  }

 private:
  struct Call {
    collective::Spec spec;
    Cause cause;
  };
  struct Group {
    std::vector<ir::Op*> members;
    int64_t bytes = 0;
    int place = 0;      // in the region: where the call will be
    int first_use = 0;  // of what a member gives; the call must come before it
  };
  static constexpr int kNever = 1 << 30;

  // Where a value of this region is there; -1 for those from outside.
  int MadeAt(const ir::Value* v) const {
    if (const auto group = group_of_.find(v); group != group_of_.end())
      return groups_[group->second].place;
    const auto at = made_at_.find(v);
    return at == made_at_.end() ? -1 : at->second;
  }

  void NoteUses(const ir::Op& op, int at) {
    for (const ir::Value* v : op.operands) {
      const auto group = group_of_.find(v);
      if (group == group_of_.end()) continue;
      int& first = groups_[group->second].first_use;
      first = std::min(first, at);
    }
    for (const ir::Region* inner : op.regions) {
      for (const ir::Op* nested : inner->ops) NoteUses(*nested, at);
    }
  }

  void FindGroups(const ir::Region& region) {
    made_at_.clear();
    group_of_.clear();
    groups_.clear();
    absl::flat_hash_map<std::string, size_t> open;
    for (int at = 0; at < static_cast<int>(region.ops.size()); ++at) {
      ir::Op* op = region.ops[at];
      for (const ir::Value* v : op->results) made_at_[v] = at;
      const auto call = calls_.find(op);
      if (call == calls_.end()) {
        NoteUses(*op, at);
        continue;
      }
      const int64_t bytes = Bytes(*op);
      const std::string likeness = LikenessOf(call->second.spec);
      const auto known = open.find(likeness);
      size_t index = known != open.end() ? known->second : groups_.size();
      if (index < groups_.size() && !Join(groups_[index], *op, at, bytes)) index = groups_.size();
      if (index == groups_.size()) groups_.push_back({{}, 0, at, kNever});
      open[likeness] = index;
      Group& group = groups_[index];
      group.members.push_back(op);
      group.bytes += bytes;
      NoteUses(*op, group.place);
      for (const ir::Value* v : op->results) group_of_[v] = index;
    }
  }

  // Whether `op`, at `at`, may become one with `group`; settles where.
  bool Join(Group& group, const ir::Op& op, int at, int64_t bytes) const {
    if (group.bytes + bytes > kMaxNeighboursBytes) return false;
    int ready = -1;
    for (const ir::Value* v : op.operands) ready = std::max(ready, MadeAt(v));
    // Of what it makes itself nothing can be an operand.
    for (const ir::Value* v : op.operands) {
      const auto of = group_of_.find(v);
      if (of != group_of_.end() && &groups_[of->second] == &group) return false;
    }
    if (group.first_use > at) {
      group.place = at;
      return true;
    }
    return ready < group.place;
  }

  void Rewrite(ir::Region* region) {
    bool any = false;
    for (const Group& group : groups_) {
      if (group.members.size() < 2) continue;
      const Call& call = calls_.at(group.members.front());
      combined_.Add(group.members, call.spec, call.cause, region->ops[group.place], region);
      any = true;
    }
    if (any) combined_.PutInto(region);
  }

  absl::flat_hash_map<const ir::Op*, Call> calls_;
  CombinedCalls combined_;
  // Of the region that is looked at:
  absl::flat_hash_map<const ir::Value*, int> made_at_;
  absl::flat_hash_map<const ir::Value*, size_t> group_of_;
  std::vector<Group> groups_;
};

}  // namespace

void CombineNeighbours(Emitter& emitter, ir::Region* region) {
  if (emitter.backend() == Backend::kNative) return;
  Combiner combiner(emitter);
  if (combiner.empty()) return;
  const ir::Location* location = emitter.b().location();
  ir::Region* place = emitter.b().region();
  combiner.Visit(region);
  emitter.b().set_region(place);
  emitter.b().set_location(location);
  if (!combiner.replaced().empty()) ReplaceUses(*region, combiner.replaced());
}

}  // namespace shardway::spmd
