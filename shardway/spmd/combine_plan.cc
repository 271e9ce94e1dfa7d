#include "shardway/spmd/combine_plan.h"

#include <algorithm>

#include "shardway/spmd/combine_partials.h"
#include "shardway/spmd/costs.h"
#include "shardway/spmd/island_steps.h"
#include "shardway/spmd/reshard.h"
#include "shardway/spmd/sort_order.h"

namespace shardway::spmd {
namespace {

using sharding::Contains;
using sharding::IsPrefix;
using sharding::ToSet;

// Of the first k elements of a sort those that one of `n` parts has.
double SentByPart(const ir::Op& sort, int64_t n) {
  const int64_t dim = SortedDim(sort);
  const auto k = static_cast<double>(sort.result()->type.dims[dim]);
  const auto tile = static_cast<double>(sharding::CeilDiv(sort.operand(0)->type.dims[dim], n));
  return k == 0 ? 1 : std::min(1.0, tile / k);
}

// Where no collective does it the rooms bring the parts together.
double CombineInRoom(const ir::Op& op, const ir::Type& type, double bytes, const Sharding& from,
                     const Sharding& to, AxisSet pending, const Mesh& mesh) {
  const AxisList axes = mesh.ToList(pending);
  const int64_t n = mesh.SizeOf(axes);
  if (op.kind == ir::OpKind::kSort) bytes *= SentByPart(op, n);
  if (op.kind != ir::OpKind::kReduce) {
    const Traffic gathered = {kCollectivePrice, bytes * static_cast<double>(n - 1)};
    return CostOver(gathered, mesh, pending) + ReshardCost(type, from, to, mesh);
  }
  const int dim = ScatteredDim(type, from, to, axes, mesh);
  const double cost = CombineByBodyCost(bytes, mesh, axes, dim >= 0);
  return dim >= 0 ? cost : cost + ReshardCost(type, from, to, mesh);
}

}  // namespace

CombinePlan PlanCombine(const ir::Type& type, const Sharding& from, const Sharding& to,
                        AxisSet pending, const Mesh& mesh) {
  CombinePlan plan;
  plan.after = from;
  for (int d = 0; d < from.rank(); ++d) {
    AxisList& have = plan.after.dims[d];
    if (!IsPrefix(have, to.dims[d])) continue;
    AxisList next = have;
    AxisList added;
    // Tiles that don't divide must be those of the target at once: the dimension is padded.
    const AxisSet wanted = ToSet(to.dims[d]);
    if (have.empty() && type.dims[d] > 1 && (wanted & ~pending) == 0) next = added = to.dims[d];
    for (size_t i = next.size(); i < to.dims[d].size() && Contains(pending, to.dims[d][i]); ++i) {
      AxisList longer = next;
      longer.push_back(to.dims[d][i]);
      if (type.dims[d] % mesh.SizeOf(longer) != 0) break;
      next = std::move(longer);
      added.push_back(to.dims[d][i]);
    }
    if (added.empty()) continue;
    pending &= ~ToSet(added);
    have = std::move(next);
    plan.scatters.push_back({d, std::move(added)});
  }
  plan.reduced = mesh.ToList(pending);
  return plan;
}

double CombineCost(const ir::Op& op, const OpRule& rule, const ir::Type& type, const Sharding& from,
                   const Sharding& to, AxisSet pending, const Mesh& mesh) {
  auto bytes = static_cast<double>(sharding::LocalType(type, from, mesh).num_bytes());
  if (rule.combine == collective::Reduction::kNone) {
    return CombineInRoom(op, type, bytes, from, to, pending, mesh);
  }
  const CombinePlan plan = PlanCombine(type, from, to, pending, mesh);
  double cost = 0;
  for (const auto& scatter : plan.scatters) {
    const int64_t n = mesh.SizeOf(scatter.axes);
    cost += GatherCost(mesh, bytes, ToSet(scatter.axes));
    bytes /= static_cast<double>(n);
  }
  if (!plan.reduced.empty()) cost += AllReduceCost(mesh, bytes, ToSet(plan.reduced));
  return cost + ReshardCost(type, plan.after, to, mesh);
}

}  // namespace shardway::spmd
