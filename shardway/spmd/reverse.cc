// reverse: a split dimension is mirrored among the parts (with a size that does not divide, two of
// them have what a part needs), then each reverses what it has.
#include <algorithm>

#include "shardway/spmd/halo.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

HaloPlan PlanMirror(int64_t size, int64_t parts, bool whole) {
  const int64_t tile = sharding::CeilDiv(size, parts);
  HaloNeeds needs;
  needs.width = tile;
  needs.parts.resize(parts);
  for (int64_t p = 0; p < parts; ++p) needs.Add(p, 0, size, size - (p + 1) * tile, tile, 0);
  const int64_t held = whole ? kHeldWhole : tile;
  return PlanHalo(needs, {&held, 1});
}

}  // namespace

OpRule ReverseRule(const ir::Op& op) {
  OpRule rule;
  TensorFactors tensor = rule.NewTensor(op.result()->type);
  for (int64_t d : op.IntList("dimensions")) {
    Factor& factor = rule.factors[tensor[d][0]];
    factor.window = factor.cuts = true;
  }
  rule.operands = {tensor};
  rule.results = {std::move(tensor)};
  return rule;
}

double ReverseExchange(const ir::Op& op, const OpRule& rule, const FactorAxes& axes,
                       const Mesh& mesh) {
  const TensorFactors& tensor = rule.operands[0];
  const ir::Type& type = op.operand(0)->type;
  const ir::Type shard = sharding::LocalType(type, FromFactors(rule, tensor, axes, mesh), mesh);
  double cost = 0;
  for (int64_t d : op.IntList("dimensions")) {
    const int f = rule.results[0][d][0];
    const AxisList& split = axes[f];
    if (split.empty()) continue;
    const HaloPlan plan = PlanMirror(type.dims[d], mesh.SizeOf(split), tensor[d][0] != f);
    ir::Type row = shard;
    row.dims[d] = 1;
    cost += CostOver(plan.traffic(static_cast<double>(row.num_bytes())), mesh, split);
  }
  return cost;
}

LocalResults EmitReverse(LocalOp& local) {
  for (int64_t d : local.op.IntList("dimensions")) {
    const int f = local.rule.results[0][d][0];
    if (local.axes[f].empty()) continue;
    const HaloPlan plan = PlanMirror(local.op.operand(0)->type.dims[d], local.parts(f),
                                     local.rule.operands[0][d][0] != f);
    local.operands[0] = EmitHalo(local.e, plan, {local.operands.data(), 1}, static_cast<int>(d),
                                 local.axes[f], nullptr);
  }
  return EmitAsIs(local);
}

}  // namespace shardway::spmd
