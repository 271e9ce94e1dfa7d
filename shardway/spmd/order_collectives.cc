// An order is judged by its *gaps*: gap[i] is what is live just before operator i (made before it,
// used by it or later); while it runs, its results come on top. Moving an operator forward changes
// only the gaps that it passes.
#include "shardway/spmd/order_collectives.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "shardway/spmd/costs.h"
#include "shardway/spmd/effects.h"

namespace shardway::spmd {
namespace {

// Operators that one is moved past: a collective, and work for one.
constexpr size_t kFarthest = 256;
constexpr size_t kFarthestWork = 64;
constexpr size_t kManyUsers = 64;  // whose value may as well live all the time

double Bytes(const ir::Value* v) {
  return v->type.is_tensor() && v->type.is_static() ? static_cast<double>(v->type.num_bytes()) : 0;
}

double ResultBytes(const ir::Op& op) {
  double bytes = 0;
  for (const ir::Value* v : op.results) bytes += Bytes(v);
  return bytes;
}

class Order {
 public:
  explicit Order(ir::Region* region) : ops_(region->ops) {
    for (size_t i = 0; i < ops_.size(); ++i) place_[ops_[i]] = i;
    for (ir::Op* op : ops_) AddUses(*op, op);
    FindGaps();
  }

  size_t size() const { return ops_.size(); }
  const ir::Op& at(size_t i) const { return *ops_[i]; }
  size_t PlaceOf(const ir::Op* op) const { return place_.at(op); }

  // The first place where everything that `op` needs is there.
  size_t Earliest(const ir::Op& op) const {
    size_t earliest = 0;
    for (const ir::Value* v : needs_.at(&op)) earliest = std::max(earliest, place_.at(v->def) + 1);
    return earliest;
  }
  size_t FirstUse(const ir::Op& op) const {
    size_t first = ops_.size();
    for (const ir::Value* v : op.results) {
      const auto users = users_.find(v);
      if (users == users_.end()) continue;
      for (const ir::Op* user : users->second) first = std::min(first, place_.at(user));
    }
    return first;
  }

  // Moves the operator at `from` forward, to `to` or as near to it as the peak allows.
  size_t Move(size_t from, size_t to) {
    const ir::Op& op = *ops_[from];
    const double made = ResultBytes(op);
    size_t reached = from;
    while (reached > to) {
      const size_t i = reached - 1;
      const double change = made - Freed(op, i);
      if (gaps_[i] + change + ResultBytes(*ops_[i]) > peak_ || gaps_[i] + made > peak_) break;
      reached = i;
    }
    if (reached == from) return from;
    for (size_t i = from; i > reached; --i) gaps_[i] = gaps_[i - 1] + made - Freed(op, i - 1);
    std::rotate(ops_.begin() + static_cast<ptrdiff_t>(reached),
                ops_.begin() + static_cast<ptrdiff_t>(from),
                ops_.begin() + static_cast<ptrdiff_t>(from) + 1);
    for (size_t i = reached; i <= from; ++i) place_[ops_[i]] = i;
    return reached;
  }

 private:
  // What `op` uses, itself or inside, of this region's values.
  void AddUses(const ir::Op& op, ir::Op* outer) {
    std::vector<const ir::Value*>& needs = needs_[outer];
    for (const ir::Value* v : op.operands) {
      if (v->def == nullptr || !place_.contains(v->def)) continue;
      if (std::find(needs.begin(), needs.end(), v) != needs.end()) continue;
      needs.push_back(v);
      users_[v].push_back(outer);
    }
    for (const ir::Region* inner : op.regions) {
      for (const ir::Op* nested : inner->ops) AddUses(*nested, outer);
    }
  }

  void FindGaps() {
    gaps_.assign(ops_.size(), 0);
    std::vector<double> ends(ops_.size() + 1);
    double live = 0;
    for (size_t i = 0; i < ops_.size(); ++i) {
      live -= ends[i];
      gaps_[i] = live;
      const double made = ResultBytes(*ops_[i]);
      peak_ = std::max(peak_, live + made);
      for (const ir::Value* v : ops_[i]->results) {
        const auto users = users_.find(v);
        if (users == users_.end()) continue;
        size_t last = 0;
        for (const ir::Op* user : users->second) last = std::max(last, place_.at(user));
        live += Bytes(v);
        ends[last + 1] += Bytes(v);
      }
    }
  }

  // Of what `op` uses, what nothing else uses from place `i` on.
  double Freed(const ir::Op& op, size_t i) const {
    double freed = 0;
    for (const ir::Value* v : needs_.at(&op)) {
      const std::vector<const ir::Op*>& users = users_.at(v);
      const bool later = users.size() > kManyUsers ||
                         std::any_of(users.begin(), users.end(), [&](const ir::Op* user) {
                           return user != &op && place_.at(user) >= i;
                         });
      if (!later) freed += Bytes(v);
    }
    return freed;
  }

  std::vector<ir::Op*>& ops_;
  absl::flat_hash_map<const ir::Op*, size_t> place_;
  absl::flat_hash_map<const ir::Op*, std::vector<const ir::Value*>> needs_;
  absl::flat_hash_map<const ir::Value*, std::vector<const ir::Op*>> users_;
  std::vector<double> gaps_;
  double peak_ = 0;
};

class Pass {
 public:
  explicit Pass(Emitter& emitter) : costs_(OverlapOf(emitter.backend())) {
    for (const CollectiveCall& call : emitter.calls()) collectives_.insert(call.op);
  }

  void Visit(ir::Region* region) {
    std::vector<const ir::Op*> here;
    for (ir::Op* op : region->ops) {
      for (ir::Region* inner : op->regions) Visit(inner);
      if (collectives_.contains(op)) here.push_back(op);
    }
    if (here.empty()) return;
    Order order(region);
    size_t after = 0;  // the collective before: sites are numbered alike for all back ends
    for (const ir::Op* op : here) {
      const size_t from = order.PlaceOf(op);
      const size_t farthest = from - std::min(from, kFarthest);
      after = order.Move(from, std::max({order.Earliest(*op), farthest, after})) + 1;
    }
    for (const ir::Op* op : here) Cover(order, *op);
  }

 private:
  // Brings work before the first use of a collective, until it is as long as the sending.
  void Cover(Order& order, const ir::Op& collective) const {
    double bytes = 0;
    for (const ir::Value* v : collective.results) bytes += Bytes(v);
    double missing = bytes + costs_.step;
    size_t use = order.FirstUse(collective);
    for (size_t i = order.PlaceOf(&collective) + 1; i < use; ++i) missing -= Work(order.at(i));
    for (size_t i = use + 1; i + 1 < order.size() && i < use + kFarthestWork && missing > 0; ++i) {
      const ir::Op& op = order.at(i);
      if (collectives_.contains(&op) || HasEffect(op) || order.Earliest(op) > use) continue;
      // A constant alone is no work; it is moved with what needs it.
      const double work = Work(op);
      if (order.Move(i, use) != use) continue;
      missing -= work;
      ++use;
    }
  }

  double Work(const ir::Op& op) const {
    if (op.kind == ir::OpKind::kConstant) return 0;
    double work = costs_.copy * ResultBytes(op);
    if (op.kind == ir::OpKind::kDotGeneral) work += costs_.bytes_per_flop * MultiplyAdds(op);
    return work;
  }

  const OverlapCosts costs_;
  absl::flat_hash_set<const ir::Op*> collectives_;
};

}  // namespace

void OrderCollectives(Emitter& emitter, ir::Region* region) {
  if (OverlapOf(emitter.backend()).share <= 0 || emitter.calls().empty()) return;
  Pass(emitter).Visit(region);
}

}  // namespace shardway::spmd
