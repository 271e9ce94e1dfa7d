// reduce_window: every dimension passes through, those with wider windows exchange edges; what
// windows reach beyond the tensor is the initial value. Cumulative ones (each window is all that
// came before) run on each part alone and then take in the total of the parts before: see scan.h.
#include "shardway/base/status_macros.h"
#include "shardway/spmd/scan.h"
#include "shardway/spmd/window_exchange.h"

namespace shardway::spmd {
namespace {

int64_t At(const std::vector<int64_t>& list, size_t i) { return i < list.size() ? list[i] : 1; }

WindowDim WindowOf(const ir::Op& op, int d) {
  const auto& padding = op.IntList("padding");
  return {.size = op.operand(0)->type.dims[d],
          .result = op.result()->type.dims[d],
          .window = At(op.IntList("window_dimensions"), d),
          .stride = At(op.IntList("window_strides"), d),
          .low = padding.empty() ? 0 : padding[2 * d],
          .base_dilation = At(op.IntList("base_dilations"), d),
          .window_dilation = At(op.IntList("window_dilations"), d)};
}

Windows ReduceWindows(const ir::Op& op) {
  Windows windows(op.operand(0)->type.rank());
  for (size_t d = 0; d < windows.size(); ++d) {
    const WindowDim dim = WindowOf(op, static_cast<int>(d));
    const bool moves = dim.window != 1 || dim.stride != 1 || dim.base_dilation != 1 ||
                       dim.low != 0 || dim.size != dim.result;
    if (moves && dim.size != 0 && dim.result != 0) windows[d] = dim;
  }
  return windows;
}

enum class Scan { kNone, kForward, kBackward };
// Whether windows grow from one end to the whole dimension: cumsum and the like.
Scan ScanOf(const WindowDim& dim) {
  if (dim.window != dim.size || dim.result != dim.size || dim.size < 2) return Scan::kNone;
  if (dim.stride != 1 || dim.base_dilation != 1 || dim.window_dilation != 1) return Scan::kNone;
  if (dim.low == dim.size - 1) return Scan::kForward;
  return dim.low == 0 ? Scan::kBackward : Scan::kNone;
}
// Along its only window.
std::optional<int> ScanDimension(const Windows& windows) {
  std::optional<int> found;
  for (size_t d = 0; d < windows.size(); ++d) {
    if (!windows[d]) continue;
    if (found || ScanOf(*windows[d]) == Scan::kNone) return std::nullopt;
    found = static_cast<int>(d);
  }
  return found;
}

void SetWindows(ir::AttrDict& attributes, const ir::Op& op, const Fetched& fetched) {
  std::vector<int64_t> padding = op.IntList("padding");
  std::vector<int64_t> base = op.IntList("base_dilations");
  padding.resize(2 * fetched.dims.size(), 0);
  base.resize(fetched.dims.size(), 1);
  for (size_t d = 0; d < fetched.dims.size(); ++d) {
    if (!fetched.dims[d]) continue;
    padding[2 * d] = fetched.dims[d]->low;
    padding[2 * d + 1] = fetched.dims[d]->high;
    if (!fetched.dims[d]->phases.empty()) base[d] = 1;
  }
  ir::Set(attributes, "padding", std::move(padding));
  ir::Set(attributes, "base_dilations", std::move(base));
}

LocalResults EmitScan(LocalOp& local, int dim, bool forward) {
  const size_t n = local.op.results.size();
  const AxisList& axes = local.axes[local.rule.operands[0][dim][0]];
  const std::vector<ir::Value*> init(local.operands.begin() + n, local.operands.end());
  for (size_t i = 0; i < n; ++i) {
    local.operands[i] = MaskPadding(local.e, local.operands[i], local.op.operand(i)->type,
                                    local.operand_shardings[i], dim, init[i]);
  }
  const int64_t tile = local.operands[0]->type.dims[dim];
  ir::AttrDict attributes = local.op.attributes;
  std::vector<int64_t> window = local.op.IntList("window_dimensions");
  std::vector<int64_t> padding = local.op.IntList("padding");
  window[dim] = tile;
  padding[2 * dim] = forward ? tile - 1 : 0;
  padding[2 * dim + 1] = forward ? 0 : tile - 1;
  ir::Set(attributes, "window_dimensions", std::move(window));
  ir::Set(attributes, "padding", std::move(padding));
  SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> scans, EmitWith(local, std::move(attributes)));
  return JoinScans(local.e, scans, init, *local.op.regions[0], dim, axes, forward);
}

}  // namespace

OpRule ReduceWindowRule(const ir::Op& op) {
  OpRule rule;
  const size_t n = op.results.size();
  const Windows windows = ReduceWindows(op);
  const auto [operand, result] = AddWindowFactors(rule, op, windows);
  if (const auto dim = ScanDimension(windows)) rule.factors[operand[*dim][0]].cuts = false;
  rule.operands.assign(n, operand);
  rule.operands.resize(2 * n);
  rule.results.assign(n, result);
  return rule;
}

double ReduceWindowExchange(const ir::Op& op, const OpRule& rule, const FactorAxes& axes,
                            const Mesh& mesh) {
  const Windows windows = ReduceWindows(op);
  double cost = 0;
  for (size_t i = 0; i < op.results.size(); ++i) {
    const ir::Type& type = op.operand(static_cast<int>(i))->type;
    if (const auto scan = ScanDimension(windows)) {
      cost += ScanCost(type, FromFactors(rule, rule.operands[i], axes, mesh), *scan, mesh);
    } else {
      cost += ExchangeCost(type, rule.operands[i], windows, rule, axes, mesh);
    }
  }
  return cost;
}

LocalResults EmitReduceWindow(LocalOp& local) {
  if (!local.rule.Exchanges(local.axes, local.mesh())) return EmitAsIs(local);
  const Windows windows = ReduceWindows(local.op);
  if (const auto dim = ScanDimension(windows)) {
    return EmitScan(local, *dim, ScanOf(*windows[*dim]) == Scan::kForward);
  }
  const size_t n = local.op.results.size();
  Fetched fetched;
  for (size_t i = 0; i < n; ++i) {
    fetched = FetchWindows(local, static_cast<int>(i), windows, local.operands[n + i]);
    local.operands[i] = fetched.value;
  }
  ir::AttrDict attributes = local.op.attributes;
  SetWindows(attributes, local.op, fetched);
  return EmitWith(local, std::move(attributes));
}

}  // namespace shardway::spmd
