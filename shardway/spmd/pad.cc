// pad (negative and interior too): dimensions without padding pass through, the others are windows
// of one element over a dilated operand; what they reach beyond it is the padding value.
#include "shardway/spmd/window_exchange.h"

namespace shardway::spmd {
namespace {

Windows PadWindows(const ir::Op& op) {
  const ir::Type& from = op.operand(0)->type;
  const ir::Type& to = op.result()->type;
  Windows windows(from.rank());
  for (int d = 0; d < from.rank(); ++d) {
    const int64_t low = op.IntList("edge_padding_low")[d];
    const int64_t interior = op.IntList("interior_padding")[d];
    if (low == 0 && interior == 0 && from.dims[d] == to.dims[d]) continue;
    if (from.dims[d] == 0 || to.dims[d] == 0) continue;
    windows[d] = {
        .size = from.dims[d], .result = to.dims[d], .low = low, .base_dilation = interior + 1};
  }
  return windows;
}

}  // namespace

OpRule PadRule(const ir::Op& op) {
  OpRule rule;
  auto [operand, result] = AddWindowFactors(rule, op, PadWindows(op));
  rule.operands = {std::move(operand), {}};
  rule.results = {std::move(result)};
  return rule;
}

double PadExchange(const ir::Op& op, const OpRule& rule, const FactorAxes& axes, const Mesh& mesh) {
  return ExchangeCost(op.operand(0)->type, rule.operands[0], PadWindows(op), rule, axes, mesh);
}

LocalResults EmitPad(LocalOp& local) {
  const Fetched fetched = FetchWindows(local, 0, PadWindows(local.op), local.operands[1]);
  local.operands[0] = fetched.value;
  ir::AttrDict attributes = local.op.attributes;
  std::vector<int64_t> low = local.op.IntList("edge_padding_low");
  std::vector<int64_t> high = local.op.IntList("edge_padding_high");
  std::vector<int64_t> interior = local.op.IntList("interior_padding");
  for (size_t d = 0; d < low.size(); ++d) {
    if (!fetched.dims[d]) continue;
    low[d] = fetched.dims[d]->low;
    high[d] = fetched.dims[d]->high;
    if (!fetched.dims[d]->phases.empty()) interior[d] = 0;
  }
  ir::Set(attributes, "edge_padding_low", std::move(low));
  ir::Set(attributes, "edge_padding_high", std::move(high));
  ir::Set(attributes, "interior_padding", std::move(interior));
  return EmitWith(local, std::move(attributes));
}

}  // namespace shardway::spmd
