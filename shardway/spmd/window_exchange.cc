#include "shardway/spmd/window_exchange.h"

namespace shardway::spmd {
namespace {

bool Split(const OpRule& rule, const TensorFactors& tensor, size_t d, const FactorAxes& axes) {
  return tensor[d].size() == 1 && rule.factors[tensor[d][0]].window && !axes[tensor[d][0]].empty();
}

}  // namespace

WindowFactors AddWindowFactors(OpRule& rule, const ir::Op& op, const Windows& windows) {
  const ir::Type& from = op.operand(0)->type;
  const ir::Type& to = op.result()->type;
  WindowFactors factors{TensorFactors(from.rank()), TensorFactors(from.rank())};
  for (int d = 0; d < from.rank(); ++d) {
    if (windows[d]) {
      factors.operand[d] = factors.result[d] = {rule.AddWindow(to.dims[d])};
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
    if (!windows[d] || !Split(rule, tensor, d, axes)) continue;
    const LocalWindow plan = PlanWindow(*windows[d], mesh.SizeOf(axes[tensor[d][0]]));
    ir::Type row = local;
    row.dims[d] = 1;
    cost += mesh.Price(sharding::ToSet(axes[tensor[d][0]])) *
            plan.halo.Cost(static_cast<double>(row.num_bytes()));
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
    if (!windows[d] || !Split(local.rule, tensor, d, local.axes)) continue;
    const int f = tensor[d][0];
    const AxisList& axes = local.axes[f];
    LocalWindow plan = PlanWindow(*windows[d], local.parts(f));
    const int dim = static_cast<int>(d);
    ir::Value* x = EmitHalo(local.e, plan.halo, {&fetched.value, 1}, dim, axes, fill,
                            strided ? windows[d]->stride : 1);
    fetched.value = DilateWindow(local.e, plan, windows[d]->base_dilation, x, dim, axes, fill);
    fetched.dims[d] = std::move(plan);
  }
  return fetched;
}

}  // namespace shardway::spmd
