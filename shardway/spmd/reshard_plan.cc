#include <algorithm>

#include "shardway/spmd/reshard.h"

namespace shardway::spmd {
namespace {

using sharding::CeilDiv;
using sharding::CommonPrefix;
using sharding::IsPrefix;
using sharding::ToSet;
using Kind = ReshardStep::Kind;

constexpr double kCollectivePrice = 4096;  // bytes: what a collective costs beside its data
constexpr double kCopyPrice = 0.05;        // of the bytes copied locally

AxisList Drop(const AxisList& list, size_t n) { return AxisList(list.begin() + n, list.end()); }
AxisList Join(AxisList a, const AxisList& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Planner {
 public:
  Planner(const ir::Type& type, const Sharding& from, const Sharding& to, const Mesh& mesh)
      : type_(type), to_(to), mesh_(mesh), now_(from) {}

  std::vector<ReshardStep> Plan() {
    while (now_ != to_) {
      if (!Slice() && !Exchange() && !Permute()) Gather();
    }
    return std::move(steps_);
  }

 private:
  // Whether the tiles of `fine` are parts of the tiles of its prefix `coarse` along `dim`.
  bool Nested(int dim, const AxisList& coarse, const AxisList& fine) const {
    if (coarse.empty()) return true;  // the whole dimension: padding is cut off or made
    const int64_t n = mesh_.SizeOf(coarse);
    const int64_t m = mesh_.SizeOf(fine);
    return CeilDiv(type_.dims[dim], m) * (m / n) == CeilDiv(type_.dims[dim], n);
  }

  void Step(Kind kind, int dim, int to_dim, AxisList axes) {
    steps_.push_back({kind, dim, to_dim, std::move(axes), now_});
  }

  bool Slice() {
    for (int d = 0; d < now_.rank(); ++d) {
      if (now_.dims[d].size() >= to_.dims[d].size() || !IsPrefix(now_.dims[d], to_.dims[d]))
        continue;
      const AxisSet used = now_.used();
      AxisList added;
      for (uint8_t a : Drop(to_.dims[d], now_.dims[d].size())) {
        if (sharding::Contains(used, a)) break;
        added.push_back(a);
      }
      while (!added.empty() && !Nested(d, now_.dims[d], Join(now_.dims[d], added)))
        added.pop_back();
      // A part of the way counts only when the rest can be gone from there.
      const AxisList next = Join(now_.dims[d], added);
      if (added.empty() || !Nested(d, next, to_.dims[d])) continue;
      now_.dims[d] = next;
      Step(Kind::kSlice, d, d, added);
      return true;
    }
    return false;
  }

  // Minor axes of one dimension that the target wants next on another.
  bool Exchange() {
    for (int i = 0; i < now_.rank(); ++i) {
      const AxisList& source = now_.dims[i];
      const size_t keep = CommonPrefix(source, to_.dims[i]).size();
      if (type_.dims[i] % mesh_.SizeOf(source) != 0) continue;
      for (size_t begin = keep; begin < source.size(); ++begin) {
        const AxisList moved = Drop(source, begin);
        for (int j = 0; j < now_.rank(); ++j) {
          if (j == i) continue;
          const AxisList target = Join(now_.dims[j], moved);
          if (!IsPrefix(target, to_.dims[j]) || type_.dims[j] % mesh_.SizeOf(target) != 0) continue;
          now_.dims[i] = AxisList(source.begin(), source.begin() + begin);
          now_.dims[j] = target;
          Step(Kind::kAllToAll, i, j, moved);
          return true;
        }
      }
    }
    return false;
  }

  // Same tiles, other devices.
  bool Permute() {
    Sharding next = now_;
    for (int d = 0; d < now_.rank(); ++d) {
      if (mesh_.SizeOf(now_.dims[d]) == mesh_.SizeOf(to_.dims[d])) next.dims[d] = to_.dims[d];
    }
    size_t atoms = 0;
    for (const AxisList& axes : next.dims) atoms += axes.size();
    if (next == now_ || static_cast<size_t>(__builtin_popcountll(next.used())) != atoms)
      return false;
    now_ = next;
    Step(Kind::kPermute, 0, 0, {});
    return true;
  }

  void Gather() {
    // Of the dimensions that must give up axes, the one whose gather grows the shard least.
    int best = -1;
    size_t best_keep = 0;
    int64_t best_growth = 0;
    for (int d = 0; d < now_.rank(); ++d) {
      size_t keep = CommonPrefix(now_.dims[d], to_.dims[d]).size();
      if (keep == now_.dims[d].size() && IsPrefix(now_.dims[d], to_.dims[d]) && !MustUnnest(d)) {
        continue;
      }
      if (MustUnnest(d)) keep = 0;
      while (keep > 0 && !Nested(d, AxisList(now_.dims[d].begin(), now_.dims[d].begin() + keep),
                                 now_.dims[d])) {
        --keep;
      }
      const int64_t growth = mesh_.SizeOf(Drop(now_.dims[d], keep));
      if (growth == 1) continue;
      if (best < 0 || growth < best_growth) {
        best = d;
        best_keep = keep;
        best_growth = growth;
      }
    }
    AxisList gathered = Drop(now_.dims[best], best_keep);
    now_.dims[best].resize(best_keep);
    Step(Kind::kAllGather, best, best, std::move(gathered));
  }

  // A dimension that the target splits further, but whose finer tiles are not parts of ours.
  bool MustUnnest(int d) const {
    const AxisList& have = now_.dims[d];
    const AxisList& want = to_.dims[d];
    return !have.empty() && have.size() < want.size() && IsPrefix(have, want) &&
           !Nested(d, have, want);
  }

  const ir::Type& type_;
  const Sharding& to_;
  const Mesh& mesh_;
  Sharding now_;
  std::vector<ReshardStep> steps_;
};

}  // namespace

double AllReduceBytes(double operand_bytes, int64_t n) { return 2 * operand_bytes * (n - 1) / n; }
double GatherBytes(double result_bytes, int64_t n) { return result_bytes * (n - 1) / n; }

std::vector<ReshardStep> PlanReshard(const ir::Type& type, const Sharding& from, const Sharding& to,
                                     const Mesh& mesh) {
  return Planner(type, from, to, mesh).Plan();
}

double ReshardCost(const ir::Type& type, const Sharding& from, const Sharding& to,
                   const Mesh& mesh) {
  if (from == to) return 0;
  double cost = 0;
  double before = static_cast<double>(sharding::LocalType(type, from, mesh).num_bytes());
  for (const ReshardStep& step : PlanReshard(type, from, to, mesh)) {
    const double after =
        static_cast<double>(sharding::LocalType(type, step.after, mesh).num_bytes());
    const int64_t n = mesh.SizeOf(step.axes);
    switch (step.kind) {
      case Kind::kSlice:
        cost += kCopyPrice * after;
        break;
      case Kind::kAllGather:
        cost += kCollectivePrice + GatherBytes(after, n);
        break;
      case Kind::kAllToAll:
        cost += kCollectivePrice + GatherBytes(before, n);
        break;
      case Kind::kPermute:
        cost += kCollectivePrice + before;
        break;
    }
    before = after;
  }
  return cost;
}

}  // namespace shardway::spmd
