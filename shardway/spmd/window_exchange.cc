#include "shardway/spmd/window_exchange.h"

namespace shardway::spmd {
namespace {

// The factor of a window over dimension `d` whose results are split; none where they are not.
std::optional<int> SplitWindow(const OpRule& rule, const TensorFactors& tensor, size_t d,
                               const FactorAxes& axes) {
  if (tensor[d].size() != 1) return std::nullopt;
  const int f = rule.WindowOf(tensor[d][0]);
  return rule.factors[f].window && !axes[f].empty() ? std::optional<int>(f) : std::nullopt;
}

}  // namespace

WindowFactors AddWindowFactors(OpRule& rule, const ir::Op& op, const Windows& windows) {
  const ir::Type& from = op.operand(0)->type;
  const ir::Type& to = op.result()->type;
  WindowFactors factors{TensorFactors(from.rank()), TensorFactors(from.rank())};
  for (int d = 0; d < from.rank(); ++d) {
    if (windows[d]) {
      factors.operand[d] = factors.result[d] = {rule.AddWindow(to.dims[d])};
      rule.factors.back().cuts = true;
    } else if (from.dims[d] == to.dims[d]) {
      factors.operand[d] = factors.result[d] = {rule.AddFactor(from.dims[d])};
    } else {
      factors.operand[d] = {rule.AddFactor(from.dims[d], Factor::Kind::kReplicated)};
      factors.result[d] = {rule.AddFactor(to.dims[d], Factor::Kind::kReplicated)};
    }
  }
  return factors;
}

double ExchangeCost(const ir::Type& operand, const TensorFactors& tensor, const Windows& windows,
                    const OpRule& rule, const FactorAxes& axes, const Mesh& mesh) {
  double cost = 0;
  ir::Type local = sharding::LocalType(operand, FromFactors(rule, tensor, axes, mesh), mesh);
  for (size_t d = 0; d < windows.size(); ++d) {
    const auto f = SplitWindow(rule, tensor, d, axes);
    if (!windows[d] || !f) continue;
    const LocalWindow plan = PlanWindow(*windows[d], mesh.SizeOf(axes[*f]), tensor[d][0] != *f);
    ir::Type row = local;
    row.dims[d] = 1;
    cost += CostOver(plan.halo.traffic(static_cast<double>(row.num_bytes())), mesh, axes[*f]);
    local.dims[d] = plan.phases.empty() ? plan.halo.width : plan.extent;
  }
  return cost;
}

Fetched FetchWindows(const LocalOp& local, int index, const Windows& windows, ir::Value* fill,
                     bool strided) {
  Fetched fetched{local.operands[index], {}};
  fetched.dims.resize(windows.size());
  const TensorFactors& tensor = local.rule.operands[index];
  for (size_t d = 0; d < windows.size(); ++d) {
    const auto f = SplitWindow(local.rule, tensor, d, local.axes);
    if (!windows[d] || !f) continue;
    const AxisList& axes = local.axes[*f];
    LocalWindow plan = PlanWindow(*windows[d], local.parts(*f), tensor[d][0] != *f);
    const int dim = static_cast<int>(d);
    ir::Value* x = EmitHalo(local.e, plan.halo, {&fetched.value, 1}, dim, axes, fill,
                            strided ? windows[d]->stride : 1);
    fetched.value = DilateWindow(local.e, plan, windows[d]->base_dilation, x, dim, axes, fill);
    fetched.dims[d] = std::move(plan);
  }
  return fetched;
}

}  // namespace shardway::spmd
