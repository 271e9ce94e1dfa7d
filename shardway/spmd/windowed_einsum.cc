// All windows of a region are found first; the ones that gain most are taken, as far as they share
// no operator. A window of several dots makes them one: that may not turn the order of the program
// into a circle, which is looked for through the windows taken before.
#include "shardway/spmd/windowed_einsum.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "shardway/spmd/costs.h"
#include "shardway/spmd/effects.h"
#include "shardway/spmd/einsum_window.h"
#include "shardway/spmd/einsum_window_emit.h"
#include "shardway/spmd/replace_uses.h"

namespace shardway::spmd {
namespace {

constexpr size_t kMaxVisited = 10'000;  // operators looked at for the sake of one window

struct Window {
  std::optional<GatherWindow> gather;
  std::optional<ScatterWindow> scatter;
  Cause cause;
  double gain = 0;

  ir::Op* collective() const { return gather ? gather->gather : scatter->scatter; }
  std::vector<ir::Op*> dots() const {
    if (scatter) return {scatter->dot};
    std::vector<ir::Op*> dots;
    for (const DotOfGather& d : gather->dots) dots.push_back(d.dot);
    return dots;
  }
  // All that the window stands for. An operator between gather and several dots is there for each.
  std::vector<const ir::Op*> members() const {
    std::vector<const ir::Op*> all = {collective()};
    for (const ir::Op* dot : dots()) all.push_back(dot);
    auto add = [&](const std::vector<TileStep>& steps) {
      for (const TileStep& step : steps) all.push_back(step.op);
    };
    if (scatter) add(scatter->steps);
    if (gather) {
      for (const DotOfGather& d : gather->dots) add(d.steps);
    }
    return all;
  }
};

double Bytes(const ir::Value* v) { return static_cast<double>(v->type.num_bytes()); }

// What is hidden, less what the hops and the partial results cost.
double GainOf(const Window& window, const Mesh& mesh, const OverlapCosts& costs) {
  const AxisList& axes = window.gather ? window.gather->axes : window.scatter->axes;
  const ir::Op& collective = *window.collective();
  const auto n = static_cast<double>(mesh.SizeOf(axes));
  const double whole = Bytes(window.gather ? collective.result() : collective.operand(0));
  const double sent = mesh.PriceOf(sharding::ToSet(axes)).byte * whole * (n - 1) / n;
  double work = 0;
  double copied = window.scatter ? whole : 0;
  for (const ir::Op* dot : window.dots()) work += costs.bytes_per_flop * MultiplyAdds(*dot);
  auto cut = [&](const ir::Op& dot, const TiledLoop& loop, int side) {
    if (loop.operand[side] >= 0) copied += Bytes(dot.operand(side));
  };
  if (window.gather) {
    for (const DotOfGather& d : window.gather->dots) {
      cut(*d.dot, d.loop, 1 - d.side);
      copied += Bytes(d.dot->result()) * (d.loop.contracting() ? n : 1);
    }
  } else {
    for (int side = 0; side < 2; ++side) cut(*window.scatter->dot, window.scatter->loop, side);
  }
  const auto hops = static_cast<double>(mesh.SizeOf(axes) / 2);
  return costs.share * std::min(sent, work * (n - 1) / n) - hops * costs.step - costs.copy * copied;
}

// Whether hiding all that it sends pays for a hop at least; most programs need no closer look.
bool MayPay(const CollectiveCall& call, const Emitter& emitter) {
  const OverlapCosts costs = OverlapOf(emitter.backend());
  const bool gather = call.spec.kind == collective::Kind::kAllGather;
  if (!gather && call.spec.kind != collective::Kind::kReduceScatter) return false;
  double bytes = 0;
  for (const auto& shaped : gather ? call.spec.results : call.spec.operands)
    bytes += static_cast<double>(shaped.num_bytes());
  return costs.share * bytes * emitter.mesh().PriceOf(emitter.mesh().all()).byte > costs.step;
}

class Pass {
 public:
  Pass(Emitter& emitter, const ir::Region& main, WindowedEinsum when, bool poison)
      : emitter_(emitter),
        when_(when),
        poison_(poison),
        costs_(OverlapOf(emitter.backend())),
        users_(UsersOf(main)) {
    for (size_t i = 0; i < emitter.calls().size(); ++i) calls_.emplace(emitter.calls()[i].op, i);
  }

  void Visit(ir::Region* region) {
    for (ir::Op* op : region->ops) {
      for (ir::Region* inner : op->regions) Visit(inner);
    }
    Choose(*region);
    if (!chosen_.empty()) Rewrite(region);
  }

  const absl::flat_hash_map<const ir::Value*, ir::Value*>& replaced() const { return replaced_; }

 private:
  void Choose(const ir::Region& region) {
    chosen_.clear();
    window_of_.clear();
    places_.clear();
    std::vector<Window> found;
    for (ir::Op* op : region.ops) {
      const auto call = calls_.find(op);
      if (call == calls_.end()) continue;
      Window window;
      const auto& [_, spec, cause] = emitter_.calls()[call->second];
      window.gather = FindGatherWindow(op, spec, users_, emitter_);
      if (!window.gather) window.scatter = FindScatterWindow(op, spec, users_, emitter_.mesh());
      if (!window.gather && !window.scatter) continue;
      window.cause = cause;
      window.gain = GainOf(window, emitter_.mesh(), costs_);
      if (when_ == WindowedEinsum::kAlways || window.gain > 0) found.push_back(std::move(window));
    }
    if (found.empty()) return;
    for (size_t i = 0; i < region.ops.size(); ++i) places_[region.ops[i]] = i;
    std::stable_sort(found.begin(), found.end(),
                     [](const Window& a, const Window& b) { return a.gain > b.gain; });
    for (Window& window : found) {
      const auto members = window.members();
      const bool taken = std::any_of(members.begin(), members.end(),
                                     [&](const ir::Op* op) { return window_of_.contains(op); });
      if (taken || !MayBeOne(window)) continue;
      chosen_.push_back(std::move(window));
      for (const ir::Op* op : members) window_of_[op] = &chosen_.back();
    }
  }

  // Whether no dot of the window needs the result of another one, and all that they need may be
  // moved before the first of them.
  bool MayBeOne(const Window& window) const {
    const std::vector<ir::Op*> dots = window.dots();
    if (dots.size() == 1) return true;
    // Whatever stands before the first dot of every window does not need one.
    size_t first = places_.at(dots.front());
    for (const Window& other : chosen_) first = std::min(first, places_.at(other.dots().front()));
    absl::flat_hash_set<const ir::Op*> seen;
    std::vector<const ir::Op*> todo;
    auto push_needs = [&](const ir::Op& op) {
      ForEachNeed(op, [&](const ir::Op* need) {
        if (places_.at(need) >= first && seen.insert(need).second) todo.push_back(need);
      });
    };
    for (const ir::Op* dot : dots) push_needs(*dot);
    while (!todo.empty()) {
      const ir::Op* op = todo.back();
      todo.pop_back();
      if (std::find(dots.begin(), dots.end(), op) != dots.end()) return false;
      if (seen.size() > kMaxVisited) return false;
      if (HasEffect(*op) && !calls_.contains(op)) return false;
      const auto other = window_of_.find(op);
      if (other == window_of_.end()) {
        push_needs(*op);
      } else {
        for (const ir::Op* member : other->second->members()) push_needs(*member);
      }
    }
    return true;
  }

  // The operators of the region whose results `op` uses, itself or inside.
  template <typename Visit>
  void ForEachNeed(const ir::Op& op, const Visit& visit) const {
    for (const ir::Value* v : op.operands) {
      if (v->def != nullptr && places_.contains(v->def)) visit(v->def);
    }
    for (const ir::Region* inner : op.regions) {
      for (const ir::Op* nested : inner->ops) ForEachNeed(*nested, visit);
    }
  }

  std::vector<ir::Op*> Emit(const Window& window, ir::Region* region) {
    ir::Region scratch;
    emitter_.b().set_region(&scratch);
    emitter_.b().set_location(window.dots().front()->location);
    Cause cause = window.cause;
    cause.ring = rings_;
    emitter_.set_cause(std::move(cause));
    Ring ring(emitter_, window.gather ? window.gather->axes : window.scatter->axes, rings_++);
    if (window.gather) {
      const std::vector<ir::Value*> values =
          EmitGatherWindow(emitter_, *window.gather, ring, poison_);
      for (size_t i = 0; i < values.size(); ++i)
        replaced_[window.gather->dots[i].dot->result()] = values[i];
    } else {
      replaced_[window.scatter->scatter->result()] =
          EmitScatterWindow(emitter_, *window.scatter, ring);
    }
    for (ir::Op* op : scratch.ops) op->parent = region;
    return std::move(scratch.ops);
  }

  // A window stands where its first dot (or its reduce-scatter) stood; what it needs is moved
  // before it, everything else stays in order.
  void Rewrite(ir::Region* region) {
    struct Item {
      std::vector<ir::Op*> ops;            // written
      std::vector<const ir::Op*> for_ops;  // whose needs come before
      bool done = false;
    };
    std::vector<Item> items;
    std::vector<size_t> item_of(region->ops.size());
    absl::flat_hash_map<const Window*, size_t> item_of_window;
    for (size_t i = 0; i < region->ops.size(); ++i) {
      ir::Op* op = region->ops[i];
      const auto member = window_of_.find(op);
      if (member == window_of_.end()) {
        item_of[i] = items.size();
        items.push_back({{op}, {op}});
        continue;
      }
      const Window* window = member->second;
      const ir::Op* anchor = window->gather ? window->dots().front() : window->collective();
      if (op != anchor) continue;
      item_of_window[window] = items.size();
      items.push_back({Emit(*window, region), window->members()});
    }
    for (size_t i = 0; i < region->ops.size(); ++i) {
      const auto member = window_of_.find(region->ops[i]);
      if (member != window_of_.end()) item_of[i] = item_of_window.at(member->second);
    }
    std::vector<ir::Op*> ops;
    std::vector<std::pair<size_t, bool>> stack;  // an item, and whether its needs are out
    for (size_t i = 0; i < items.size(); ++i) {
      stack.emplace_back(i, false);
      while (!stack.empty()) {
        const size_t at = stack.back().first;
        const bool ready = stack.back().second;
        stack.pop_back();
        if (items[at].done) continue;
        if (ready) {
          items[at].done = true;
          ops.insert(ops.end(), items[at].ops.begin(), items[at].ops.end());
          continue;
        }
        stack.emplace_back(at, true);
        for (const ir::Op* op : items[at].for_ops) {
          ForEachNeed(*op, [&](const ir::Op* need) {
            const size_t other = item_of[places_.at(need)];
            if (other != at && !items[other].done) stack.emplace_back(other, false);
          });
        }
      }
    }
    region->ops = std::move(ops);
  }

  Emitter& emitter_;
  const WindowedEinsum when_;
  const bool poison_;
  const OverlapCosts costs_;
  const Users users_;
  absl::flat_hash_map<const ir::Op*, size_t> calls_;  // of the emitter's
  absl::flat_hash_map<const ir::Value*, ir::Value*> replaced_;
  int rings_ = 0;
  // Of the region being rewritten.
  std::deque<Window> chosen_;
  absl::flat_hash_map<const ir::Op*, const Window*> window_of_;
  absl::flat_hash_map<const ir::Op*, size_t> places_;
};

}  // namespace

void WindowEinsums(Emitter& emitter, ir::Region* region, WindowedEinsum when, bool poison) {
  const auto worth_a_look = [&](const CollectiveCall& call) {
    return when == WindowedEinsum::kAlways || MayPay(call, emitter);
  };
  if (when == WindowedEinsum::kNever ||
      std::none_of(emitter.calls().begin(), emitter.calls().end(), worth_a_look)) {
    return;
  }
  const ir::Location* location = emitter.b().location();
  ir::Region* place = emitter.b().region();
  Pass pass(emitter, *region, when, poison);
  pass.Visit(region);
  emitter.b().set_region(place);
  emitter.b().set_location(location);
  if (!pass.replaced().empty()) ReplaceUses(*region, pass.replaced());
}

}  // namespace shardway::spmd
