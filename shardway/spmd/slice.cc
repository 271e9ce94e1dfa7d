// slice: dimensions taken in full pass through, the others are windows of one element.
#include "shardway/spmd/window_exchange.h"

namespace shardway::spmd {
namespace {

Windows SliceWindows(const ir::Op& op) {
  const ir::Type& from = op.operand(0)->type;
  const ir::Type& to = op.result()->type;
  Windows windows(from.rank());
  for (int d = 0; d < from.rank(); ++d) {
    if (from.dims[d] == to.dims[d] || to.dims[d] == 0) continue;
    windows[d] = {.size = from.dims[d],
                  .result = to.dims[d],
                  .stride = op.IntList("strides")[d],
                  .low = -op.IntList("start_indices")[d]};
  }
  return windows;
}

}  // namespace

OpRule SliceRule(const ir::Op& op) {
  OpRule rule;
  auto [operand, result] = AddWindowFactors(rule, op, SliceWindows(op));
  rule.operands = {std::move(operand)};
  rule.results = {std::move(result)};
  return rule;
}

double SliceExchange(const ir::Op& op, const OpRule& rule, const FactorAxes& axes,
                     const Mesh& mesh) {
  return ExchangeCost(op.operand(0)->type, rule.operands[0], SliceWindows(op), rule, axes, mesh);
}

LocalResults EmitSlice(LocalOp& local) {
  const Fetched fetched = FetchWindows(local, 0, SliceWindows(local.op), nullptr, /*strided=*/true);
  local.operands[0] = fetched.value;
  ir::AttrDict attributes = local.op.attributes;
  std::vector<int64_t> starts = local.op.IntList("start_indices");
  std::vector<int64_t> limits = local.op.IntList("limit_indices");
  std::vector<int64_t> strides = local.op.IntList("strides");
  for (size_t d = 0; d < limits.size(); ++d) {
    if (fetched.dims[d]) {
      starts[d] = 0;
      strides[d] = 1;
    }
    if (fetched.dims[d] || !local.operand_shardings[0].dims[d].empty())
      limits[d] = fetched.value->type.dims[d];
  }
  ir::Set(attributes, "start_indices", std::move(starts));
  ir::Set(attributes, "limit_indices", std::move(limits));
  ir::Set(attributes, "strides", std::move(strides));
  return EmitWith(local, std::move(attributes));
}

}  // namespace shardway::spmd
