#include "shardway/spmd/hoist_collectives.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "shardway/collective/bytes_sent.h"
#include "shardway/ir/trip_count.h"
#include "shardway/spmd/effects.h"

namespace shardway::spmd {
namespace {

constexpr double kDefaultTrips = 16;

int64_t Bytes(const std::vector<ir::Value*>& values) {
  int64_t bytes = 0;
  for (const ir::Value* v : values) bytes += v->type.is_tensor() ? v->type.num_bytes() : 0;
  return bytes;
}

// One loop.
class Hoister {
 public:
  using Calls = absl::flat_hash_map<const ir::Op*, const collective::Spec*>;

  Hoister(const Calls& calls, ir::Op* loop)
      : calls_(calls),
        loop_(loop),
        rounds_(ir::TripCount(*loop).value_or(kDefaultTrips)),
        body_(*loop->regions[1]) {}

  // What goes before the loop, in order; it is no longer inside.
  std::vector<ir::Op*> Run() {
    for (ir::Region* region : loop_->regions) Collect(*region);
    for (ir::Region* region : loop_->regions) Choose(*region);
    if (moved_.empty()) return {};
    for (ir::Region* region : loop_->regions) Follow(*region);
    std::vector<ir::Op*> out;
    for (ir::Region* region : loop_->regions) Extract(*region, out);
    for (ir::Op* op : out) {
      for (ir::Value*& v : op->operands) {
        if (v->def == nullptr && inside_.contains(v)) v = loop_->operand(v->index);
      }
      op->parent = loop_->parent;
    }
    return out;
  }

 private:
  // Regions that are programs: the loop's own and those of branches in it. Loops inside are done
  // already: what is left in them changes with their rounds.
  void Collect(ir::Region& region) {
    inside_.insert(region.arguments.begin(), region.arguments.end());
    for (ir::Op* op : region.ops) {
      inside_.insert(op->results.begin(), op->results.end());
      if (!IsBranch(*op)) continue;
      for (ir::Region* branch : op->regions) Collect(*branch);
    }
  }

  bool HandsOn(const ir::Value* v) const {
    return v->owner->parent == loop_ &&
           body_.terminator()->operand(v->index) == body_.arguments[v->index];
  }
  bool Invariant(const ir::Value* v) const {
    if (!inside_.contains(v)) return true;
    return v->def != nullptr ? invariant_.contains(v->def) : HandsOn(v);
  }
  bool AllInvariant(const ir::Op& op) const {
    return std::all_of(op.operands.begin(), op.operands.end(),
                       [&](const ir::Value* v) { return Invariant(v); });
  }

  void Choose(ir::Region& region) {
    for (ir::Op* op : region.ops) {
      if (IsBranch(*op)) {
        for (ir::Region* branch : op->regions) Choose(*branch);
        continue;
      }
      if (!AllInvariant(*op)) continue;
      if (const auto call = calls_.find(op); call != calls_.end()) {
        const double saved = (rounds_ - 1) * collective::BytesSent(*call->second);
        if (saved < static_cast<double>(Bytes(op->results))) continue;
        Take(op);
      } else if (!IsPure(*op)) {
        continue;
      }
      invariant_.insert(op);
    }
  }
  // `op` and what it is made of.
  void Take(ir::Op* op) {
    std::vector<ir::Op*> left = {op};
    while (!left.empty()) {
      ir::Op* next = left.back();
      left.pop_back();
      if (!moved_.insert(next).second) continue;
      for (const ir::Value* v : next->operands) {
        if (v->def != nullptr && inside_.contains(v)) left.push_back(v->def);
      }
    }
  }
  // Cuts of what moved: less is kept.
  void Follow(ir::Region& region) {
    for (ir::Op* op : region.ops) {
      if (IsBranch(*op)) {
        for (ir::Region* branch : op->regions) Follow(*branch);
      }
      if (!invariant_.contains(op) || op->operands.empty()) continue;
      const ir::Value* whole = op->operand(0);
      const bool of_moved = whole->def != nullptr && moved_.contains(whole->def);
      if (of_moved && Bytes(op->results) < Bytes({op->operand(0)})) Take(op);
    }
  }

  void Extract(ir::Region& region, std::vector<ir::Op*>& out) {
    std::vector<ir::Op*> left;
    for (ir::Op* op : region.ops) {
      if (moved_.contains(op)) {
        out.push_back(op);
        continue;
      }
      if (IsBranch(*op)) {
        for (ir::Region* branch : op->regions) Extract(*branch, out);
      }
      left.push_back(op);
    }
    region.ops = std::move(left);
  }

  const Calls& calls_;
  ir::Op* loop_;
  const double rounds_;
  const ir::Region& body_;
  absl::flat_hash_set<const ir::Value*> inside_;
  absl::flat_hash_set<const ir::Op*> invariant_;
  absl::flat_hash_set<const ir::Op*> moved_;
};

void Visit(const Hoister::Calls& calls, ir::Region* region) {
  std::vector<ir::Op*> ops;
  for (ir::Op* op : region->ops) {
    if (op->kind == ir::OpKind::kWhile || IsBranch(*op)) {
      for (ir::Region* inner : op->regions) Visit(calls, inner);
    }
    if (op->kind == ir::OpKind::kWhile) {
      const std::vector<ir::Op*> before = Hoister(calls, op).Run();
      ops.insert(ops.end(), before.begin(), before.end());
    }
    ops.push_back(op);
  }
  region->ops = std::move(ops);
}

}  // namespace

void HoistCollectives(Emitter& emitter, ir::Region* region) {
  Hoister::Calls calls;
  for (const CollectiveCall& call : emitter.calls()) calls.emplace(call.op, &call.spec);
  if (!calls.empty()) Visit(calls, region);
}

}  // namespace shardway::spmd
