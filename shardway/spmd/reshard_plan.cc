// Dijkstra's algorithm over layouts. Most pairs of shardings need no search: where every dimension
// is only split further or only gathered, slices come first and gathers last.
#include <algorithm>
#include <deque>
#include <numeric>
#include <queue>

#include "absl/container/flat_hash_map.h"
#include "shardway/spmd/costs.h"
#include "shardway/spmd/island_steps.h"
#include "shardway/spmd/reshard.h"
#include "shardway/spmd/thin_gather.h"

namespace shardway::spmd {
namespace {

using sharding::CeilDiv;
using sharding::CommonPrefix;
using sharding::IsPrefix;
using sharding::ToSet;
using Kind = ReshardStep::Kind;
using Sizes = absl::InlinedVector<int64_t, 4>;

constexpr double kPadding = 1.3;
constexpr double kHeldPrice = 1;
constexpr size_t kMaxLayouts = 400;  // looked at before the search settles for what it has

AxisList Drop(const AxisList& list, size_t n) { return AxisList(list.begin() + n, list.end()); }
AxisList Join(AxisList a, const AxisList& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Layout {
  Sharding sharding;
  Sizes shard;
  friend bool operator==(const Layout&, const Layout&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Layout& l) {
    return H::combine(std::move(h), l.sharding, l.shard);
  }
};

class Planner {
 public:
  Planner(const ir::Type& type, const Sharding& from, const Sharding& to, const Mesh& mesh)
      : type_(type), to_(to), mesh_(mesh), start_(LayoutOf(from)), goal_(LayoutOf(to)) {
    element_bytes_ = static_cast<double>(type.num_bytes()) /
                     static_cast<double>(std::max<int64_t>(type.num_elements(), 1));
    for (int d = 0; d < to.rank(); ++d) {
      const int64_t from_parts = Parts(start_, d), to_parts = Parts(goal_, d);
      const bool nested = from_parts % to_parts == 0 || to_parts % from_parts == 0;
      finest_.push_back(nested ? to_parts : std::lcm(from_parts, to_parts));
    }
  }

  ReshardPlan Plan() {
    if (start_ == goal_) return {};
    if (Straight()) return Fold(StraightSteps());
    Search();
    return std::move(best_);
  }

 private:
  struct Node {
    Layout layout;
    double cost;
    int parent;
    ReshardStep step;
  };

  Layout LayoutOf(const Sharding& sharding) const {
    Layout layout{sharding, {}};
    for (int d = 0; d < sharding.rank(); ++d) {
      layout.shard.push_back(CeilDiv(type_.dims[d], mesh_.SizeOf(sharding.dims[d])));
    }
    return layout;
  }

  double Bytes(const Sizes& shard) const {
    double bytes = element_bytes_;
    for (int64_t d : shard) bytes *= static_cast<double>(d);
    return bytes;
  }
  int64_t Parts(const Layout& l, int d) const { return mesh_.SizeOf(l.sharding.dims[d]); }

  // The tile of `parts` parts of a dimension that is best on the way to the goal's.
  int64_t Tile(int d, int64_t parts) const {
    const int64_t wanted = Parts(goal_, d);
    if (wanted % parts == 0) return goal_.shard[d] * (wanted / parts);
    if (finest_[d] % parts == 0) return CeilDiv(type_.dims[d], finest_[d]) * (finest_[d] / parts);
    return CeilDiv(type_.dims[d], parts);
  }
  // Whether part of a tile is a tile when `axes` split it further.
  bool CanSplit(const Layout& l, int d, int64_t count) const {
    const int64_t parts = Parts(l, d);
    return parts == 1 || l.shard[d] == Tile(d, parts * count) * count;
  }
  // The size of the shard once `count` neighbouring parts are joined.
  int64_t Joined(const Layout& l, int d, int64_t count) const {
    return Parts(l, d) == count ? type_.dims[d] : l.shard[d] * count;
  }

  // ---- steps ----

  ReshardStep StepTo(Kind kind, int dim, int to_dim, const AxisList& axes,
                     const Layout& next) const {
    return {kind, dim, to_dim, axes, next.sharding, next.shard};
  }

  void AddSlice(Layout& l, int d, const AxisList& axes) const {
    const int64_t count = mesh_.SizeOf(axes);
    l.shard[d] = Tile(d, Parts(l, d) * count);
    l.sharding.dims[d] = Join(l.sharding.dims[d], axes);
  }

  // What a step holds beyond the larger of the two shards (and what their tiles reach beyond the
  // end) is memory that the program was not meant to need: as dear as sending it.
  double CostOf(const Layout& before, const ReshardStep& step) const {
    const double meant = kPadding * std::max(Bytes(start_.shard), Bytes(goal_.shard));
    return Sending(before, step) + kHeldPrice * std::max(Bytes(step.shard) - meant, 0.0);
  }

  double Sending(const Layout& before, const ReshardStep& step) const {
    const double held = Bytes(before.shard);
    const double after = Bytes(step.shard);
    const int64_t n = mesh_.SizeOf(step.axes);
    switch (step.kind) {
      case Kind::kSlice:
        return kCopyPrice * after;
      case Kind::kAllGather: {
        const bool thin = IsThin(type_.element, before.shard[step.dim], n, step.shard[step.dim]);
        if (thin) return AllReduceCost(mesh_, after, ToSet(step.axes));
        return GatherCost(mesh_, held * static_cast<double>(n), ToSet(step.axes));
      }
      case Kind::kAllToAll: {
        Sizes padded = before.shard;
        padded[step.to_dim] = step.shard[step.to_dim] * n;
        return CostOver({kCollectivePrice, GatherBytes(Bytes(padded), n)}, mesh_, step.axes) +
               kCopyPrice * after;
      }
      case Kind::kPermute: {
        AxisSet moved = 0;
        for (size_t d = 0; d < step.after.dims.size(); ++d) {
          if (step.after.dims[d] == before.sharding.dims[d]) continue;
          moved |= ToSet(step.after.dims[d]) | ToSet(before.sharding.dims[d]);
        }
        return CostOver({kCollectivePrice, held}, mesh_, moved);
      }
      case Kind::kRetile: {
        const int64_t tiles[] = {before.shard[step.dim]};
        const HaloPlan halo = PlanHalo(
            RetileNeeds(type_.dims[step.dim], mesh_.SizeOf(step.axes), step.shard[step.dim]),
            tiles);
        const double rows = static_cast<double>(before.shard[step.dim]);
        const Traffic moved = {static_cast<double>(halo.permutes()) * kCollectivePrice,
                               static_cast<double>(halo.sent()) * held / std::max(rows, 1.0)};
        return CostOver(moved, mesh_, step.axes) + kCopyPrice * after;
      }
    }
    return 0;
  }

  ReshardPlan Fold(std::vector<ReshardStep> steps) const {
    ReshardPlan plan;
    Layout now = start_;
    for (const ReshardStep& step : steps) {
      plan.cost += CostOf(now, step);
      now = {step.after, step.shard};
    }
    plan.steps = std::move(steps);
    return plan;
  }

  // ---- without a search ----

  bool Straight() const {
    const AxisSet used = start_.sharding.used();
    for (int d = 0; d < to_.rank(); ++d) {
      const AxisList& have = start_.sharding.dims[d];
      const AxisList& want = to_.dims[d];
      if (IsPrefix(have, want)) {
        const AxisList added = Drop(want, have.size());
        if ((ToSet(added) & used) != 0) return false;
        if (!added.empty() && !CanSplit(start_, d, mesh_.SizeOf(added))) return false;
      } else if (!IsPrefix(want, have) ||
                 Joined(start_, d, mesh_.SizeOf(Drop(have, want.size()))) != goal_.shard[d]) {
        return false;
      }
    }
    return true;
  }

  std::vector<ReshardStep> StraightSteps() const {
    std::vector<ReshardStep> steps;
    Layout now = start_;
    for (int d = 0; d < to_.rank(); ++d) {
      const AxisList& have = now.sharding.dims[d];
      if (have.size() >= to_.dims[d].size()) continue;
      const AxisList added = Drop(to_.dims[d], have.size());
      AddSlice(now, d, added);
      steps.push_back(StepTo(Kind::kSlice, d, d, added, now));
    }
    for (int d = 0; d < to_.rank(); ++d) {
      const size_t keep = to_.dims[d].size();
      if (now.sharding.dims[d].size() <= keep) continue;
      const AxisList gone = Drop(now.sharding.dims[d], keep);
      now.shard[d] = goal_.shard[d];
      now.sharding.dims[d].resize(keep);
      steps.push_back(StepTo(Kind::kAllGather, d, d, gone, now));
    }
    return steps;
  }

  // Gathers every dimension that differs and slices it: always possible, the bound to beat.
  std::vector<ReshardStep> LastResort() const {
    std::vector<ReshardStep> steps;
    Layout now = start_;
    for (int d = 0; d < to_.rank(); ++d) {
      if (now.sharding.dims[d] == to_.dims[d] || now.sharding.dims[d].empty()) continue;
      const AxisList gone = now.sharding.dims[d];
      now.sharding.dims[d].clear();
      now.shard[d] = type_.dims[d];
      steps.push_back(StepTo(Kind::kAllGather, d, d, gone, now));
    }
    for (int d = 0; d < to_.rank(); ++d) {
      if (now.sharding.dims[d] == to_.dims[d]) continue;
      AddSlice(now, d, to_.dims[d]);
      steps.push_back(StepTo(Kind::kSlice, d, d, to_.dims[d], now));
    }
    return steps;
  }

  // ---- with one ----

  void Search() {
    best_ = Fold(LastResort());
    using Entry = std::pair<double, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    nodes_.push_back({start_, 0, -1, {}});
    cheapest_[start_] = 0;
    open.emplace(0, 0);
    size_t looked_at = 0;
    while (!open.empty() && looked_at < kMaxLayouts) {
      const double cost = open.top().first;
      const int at = open.top().second;
      open.pop();
      if (cost >= best_.cost) break;
      const Layout here = nodes_[at].layout;
      if (cost > cheapest_[here]) continue;
      if (here == goal_) {
        Take(at);
        return;
      }
      ++looked_at;
      auto visit = [&](const Layout& next, ReshardStep step) {
        const double total = cost + CostOf(here, step);
        if (total >= best_.cost) return;
        auto [it, is_new] = cheapest_.emplace(next, total);
        if (!is_new && it->second <= total) return;
        it->second = total;
        open.emplace(total, static_cast<int>(nodes_.size()));
        nodes_.push_back({next, total, at, std::move(step)});
      };
      Slices(here, visit);
      Exchanges(here, visit);
      Permutes(here, visit);
      Gathers(here, visit);
      Retiles(here, visit);
    }
  }

  void Take(int at) {
    best_.cost = nodes_[at].cost;
    best_.steps.clear();
    for (; nodes_[at].parent >= 0; at = nodes_[at].parent) best_.steps.push_back(nodes_[at].step);
    std::reverse(best_.steps.begin(), best_.steps.end());
  }

  template <typename Visit>
  void Slices(const Layout& here, const Visit& visit) const {
    const AxisSet used = here.sharding.used();
    for (int d = 0; d < to_.rank(); ++d) {
      const AxisList& have = here.sharding.dims[d];
      const AxisList& want = to_.dims[d];
      auto slice = [&](const AxisList& added) {
        if (added.empty() || !CanSplit(here, d, mesh_.SizeOf(added))) return;
        Layout next = here;
        AddSlice(next, d, added);
        visit(next, StepTo(Kind::kSlice, d, d, added, next));
      };
      if (IsPrefix(have, want)) {
        AxisList added;
        for (uint8_t a : Drop(want, have.size())) {
          if (sharding::Contains(used, a)) break;
          added.push_back(a);
        }
        slice(added);
      }
      // Any unused axis, to be permuted later: what is sent then is less.
      for (uint8_t a = 0; a < mesh_.num_atoms(); ++a) {
        const int64_t parts = Parts(here, d) * mesh_.size(a);
        if (sharding::Contains(used, a) || !sharding::Contains(to_.used(), a)) continue;
        if (finest_[d] % parts == 0) slice({a});
      }
    }
  }

  // Minor axes of one dimension become the minor ones of another.
  template <typename Visit>
  void Exchanges(const Layout& here, const Visit& visit) const {
    for (int i = 0; i < to_.rank(); ++i) {
      const AxisList& source = here.sharding.dims[i];
      for (size_t keep = 0; keep < source.size(); ++keep) {
        const AxisList moved = Drop(source, keep);
        const int64_t count = mesh_.SizeOf(moved);
        for (int j = 0; j < to_.rank(); ++j) {
          if (j == i || finest_[j] % (Parts(here, j) * count) != 0) continue;
          if (!CanSplit(here, j, count)) continue;
          Layout next = here;
          next.shard[i] = Joined(here, i, count);
          next.sharding.dims[i].resize(keep);
          AddSlice(next, j, moved);
          visit(next, StepTo(Kind::kAllToAll, i, j, moved, next));
        }
      }
    }
  }

  // Same tiles, other devices.
  template <typename Visit>
  void Permutes(const Layout& here, const Visit& visit) const {
    auto permute = [&](const Layout& next) {
      size_t atoms = 0;
      for (const AxisList& axes : next.sharding.dims) atoms += axes.size();
      if (next == here || static_cast<size_t>(__builtin_popcountll(next.sharding.used())) != atoms)
        return;
      visit(next, StepTo(Kind::kPermute, 0, 0, {}, next));
    };
    Layout next = here;
    for (int d = 0; d < to_.rank(); ++d) {
      if (Parts(here, d) == Parts(goal_, d)) next.sharding.dims[d] = to_.dims[d];
    }
    permute(next);
    // What the goal keeps in each dimension to the front, what must go behind it.
    next = here;
    AxisSet claimed = 0;
    Sizes left(to_.rank(), 1);
    for (int d = 0; d < to_.rank(); ++d) {
      left[d] = Parts(here, d);
      next.sharding.dims[d].clear();
      for (uint8_t a : to_.dims[d]) {
        if (left[d] % mesh_.size(a) != 0) break;
        left[d] /= mesh_.size(a);
        claimed |= AxisSet{1} << a;
        next.sharding.dims[d].push_back(a);
      }
    }
    AxisSet loose = here.sharding.used() & ~claimed;
    for (int d = 0; d < to_.rank(); ++d) {
      for (const AxisSet of : {ToSet(here.sharding.dims[d]), mesh_.all()}) {
        for (uint8_t a : mesh_.ToList(loose & of)) {
          if (left[d] % mesh_.size(a) != 0) continue;
          left[d] /= mesh_.size(a);
          loose &= ~(AxisSet{1} << a);
          next.sharding.dims[d].push_back(a);
        }
      }
      if (left[d] != 1) return;
    }
    permute(next);
  }

  template <typename Visit>
  void Gathers(const Layout& here, const Visit& visit) const {
    for (int d = 0; d < to_.rank(); ++d) {
      const AxisList& have = here.sharding.dims[d];
      const size_t common = have == to_.dims[d] ? have.size() : 0;
      for (size_t keep = common; keep < have.size(); ++keep) {
        const AxisList gone = Drop(have, keep);
        Layout next = here;
        next.shard[d] = Joined(here, d, mesh_.SizeOf(gone));
        next.sharding.dims[d].resize(keep);
        visit(next, StepTo(Kind::kAllGather, d, d, gone, next));
      }
    }
  }

  template <typename Visit>
  void Retiles(const Layout& here, const Visit& visit) const {
    for (int d = 0; d < to_.rank(); ++d) {
      const int64_t parts = Parts(here, d);
      const int64_t tile = Tile(d, parts);
      if (parts == 1 || tile == here.shard[d]) continue;
      Layout next = here;
      next.shard[d] = tile;
      visit(next, StepTo(Kind::kRetile, d, d, here.sharding.dims[d], next));
    }
  }

  const ir::Type& type_;
  const Sharding& to_;
  const Mesh& mesh_;
  Layout start_, goal_;
  // Into how many parts a dimension may be split on the way. As many as the goal has; where 3 parts
  // become 2, into 6, which are parts of both.
  Sizes finest_;
  double element_bytes_ = 1;
  std::deque<Node> nodes_;
  absl::flat_hash_map<Layout, double> cheapest_;
  ReshardPlan best_;
};

}  // namespace

double AllReduceBytes(double operand_bytes, int64_t n) { return 2 * operand_bytes * (n - 1) / n; }
double GatherBytes(double result_bytes, int64_t n) { return result_bytes * (n - 1) / n; }

HaloNeeds RetileNeeds(int64_t size, int64_t parts, int64_t tile) {
  HaloNeeds needs;
  needs.width = tile;
  needs.parts.resize(parts);
  for (int64_t p = 0; p < parts; ++p) needs.Add(p, 0, size, p * tile, tile, 0);
  return needs;
}

ReshardPlan PlanReshard(const ir::Type& type, const Sharding& from, const Sharding& to,
                        const Mesh& mesh) {
  return Planner(type, from, to, mesh).Plan();
}

double ReshardCost(const ir::Type& type, const Sharding& from, const Sharding& to,
                   const Mesh& mesh) {
  return from == to ? 0 : PlanReshard(type, from, to, mesh).cost;
}

}  // namespace shardway::spmd
