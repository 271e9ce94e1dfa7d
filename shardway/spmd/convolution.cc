// convolution. Batch and output features pass through, input features are a reduction, groups (of
// features or of batches) are the major part of the dimensions that they divide. A spatial
// dimension is a window that exchanges edges:
//
//   image [n], kernel [k], result [m]   k ≤ m: the image and the result are split, the kernel whole
//                                       k > m: the image and the kernel are split, the result is
//                                       partial (a gradient of a kernel is such a convolution)
//
// Any mix of these may be split, each over its own axes.
#include <algorithm>

#include "shardway/spmd/window_exchange.h"

namespace shardway::spmd {
namespace {

using Kind = Factor::Kind;

int64_t At(const std::vector<int64_t>& list, size_t i) { return i < list.size() ? list[i] : 1; }

struct Spatial {
  int64_t image, kernel, result;  // which dimension of each
  WindowDim window;
  bool contracts = false;  // k > m: the kernel takes the place of the result in `window`
  bool moves = true;       // otherwise element by element
};

std::vector<Spatial> SpatialOf(const ir::Op& op) {
  const auto& image = op.IntList("input_spatial_dimensions");
  const auto& kernel = op.IntList("kernel_spatial_dimensions");
  const auto& result = op.IntList("output_spatial_dimensions");
  const auto& padding = op.IntList("padding");
  const ir::Attribute* attribute = op.Find("window_reversal");
  const auto* reversal = attribute != nullptr ? attribute->get_if<std::vector<bool>>() : nullptr;
  std::vector<Spatial> list;
  for (size_t i = 0; i < image.size(); ++i) {
    Spatial s{image[i], kernel[i], result[i], {}};
    WindowDim& w = s.window;
    w.size = op.operand(0)->type.dims[image[i]];
    w.result = op.result()->type.dims[result[i]];
    w.window = op.operand(1)->type.dims[kernel[i]];
    w.stride = At(op.IntList("window_strides"), i);
    w.low = padding.empty() ? 0 : padding[2 * i];
    w.base_dilation = At(op.IntList("lhs_dilation"), i);
    w.window_dilation = At(op.IntList("rhs_dilation"), i);
    const bool reversed = reversal != nullptr && i < reversal->size() && (*reversal)[i];
    s.contracts = w.window > w.result && !reversed;
    if (s.contracts) {
      std::swap(w.result, w.window);
      std::swap(w.stride, w.window_dilation);
    }
    s.moves = s.contracts || w.window != 1 || w.stride != 1 || w.base_dilation != 1 || w.low != 0 ||
              w.size != w.result;
    list.push_back(s);
  }
  return list;
}

Windows ImageWindows(const ir::Op& op) {
  Windows windows(op.operand(0)->type.rank());
  for (const Spatial& s : SpatialOf(op)) {
    if (s.moves) windows[s.image] = s.window;
  }
  return windows;
}

// Elements are dropped before the first and zeros added behind the last: of such padding XLA's CPU
// backend reads beyond the image. What is dropped is sliced off instead.
ir::Value* SliceDropped(Emitter& e, ir::Value* image, int64_t dim, int64_t dilation, int64_t& low,
                        int64_t high) {
  const int64_t dropped = CeilDiv(-low, dilation);
  if (low >= 0 || high <= 0 || dropped >= image->type.dims[dim]) return image;
  std::vector<int64_t> starts(image->type.rank(), 0);
  starts[dim] = dropped;
  low += dropped * dilation;
  return e.b().Slice(image, starts, image->type.dims);
}

bool Empty(const ir::Op& op) {
  return op.operand(0)->type.num_elements() == 0 || op.operand(1)->type.num_elements() == 0 ||
         op.result()->type.num_elements() == 0;
}

}  // namespace

OpRule ConvolutionRule(const ir::Op& op) {
  if (Empty(op)) return ReplicatedRule(op);
  OpRule rule;
  rule.combine = collective::Reduction::kSum;
  const ir::Type& lhs = op.operand(0)->type;
  const ir::Type& rhs = op.operand(1)->type;
  TensorFactors image(lhs.rank());
  TensorFactors kernel(rhs.rank());
  TensorFactors result(op.result()->type.rank());
  const int64_t groups = op.Int("feature_group_count", 1);
  const int64_t batch_groups = op.Int("batch_group_count", 1);

  auto& batch = image[op.Int("input_batch_dimension")];
  auto& features = image[op.Int("input_feature_dimension")];
  auto& kernel_in = kernel[op.Int("kernel_input_feature_dimension")];
  auto& kernel_out = kernel[op.Int("kernel_output_feature_dimension")];
  const int64_t out = rhs.dims[op.Int("kernel_output_feature_dimension")];
  if (groups > 1) {
    const int g = rule.AddFactor(groups);
    features.push_back(g);
    kernel_out.push_back(g);
  }
  if (batch_groups > 1) {
    const int g = rule.AddFactor(batch_groups);
    batch.push_back(g);
    kernel_out.push_back(g);
  }
  const int b = rule.AddFactor(lhs.dims[op.Int("input_batch_dimension")] / batch_groups);
  batch.push_back(b);
  result[op.Int("output_batch_dimension")] = {b};
  kernel_in = {
      rule.AddFactor(rhs.dims[op.Int("kernel_input_feature_dimension")], Kind::kReduction)};
  features.push_back(kernel_in[0]);
  kernel_out.push_back(rule.AddFactor(out / (groups * batch_groups)));
  result[op.Int("output_feature_dimension")] = kernel_out;

  for (const Spatial& s : SpatialOf(op)) {
    auto whole = [&](int64_t size) { return rule.AddFactor(size, Kind::kReplicated); };
    const int f = s.contracts ? rule.AddWindow(s.window.result, Kind::kReduction)
                  : s.moves   ? rule.AddWindow(s.window.result)
                              : rule.AddFactor(s.window.result);
    rule.factors[f].cuts = rule.factors[f].window && !s.contracts;
    image[s.image] = {f};
    kernel[s.kernel] = {s.contracts ? f : whole(s.window.window)};
    result[s.result] = {s.contracts ? whole(s.window.window) : f};
  }
  rule.operands = {std::move(image), std::move(kernel)};
  rule.results = {std::move(result)};
  return rule;
}

double ConvolutionExchange(const ir::Op& op, const OpRule& rule, const FactorAxes& axes,
                           const Mesh& mesh) {
  return ExchangeCost(op.operand(0)->type, rule.operands[0], ImageWindows(op), rule, axes, mesh);
}

LocalResults EmitConvolution(LocalOp& local) {
  const ir::Op& op = local.op;
  if (Empty(op)) return EmitAsIs(local);
  ir::AttrDict attributes = op.attributes;
  const TensorFactors& image = local.rule.operands[0];
  auto zero = [&](int side) {
    return local.e.b().SplatInt(ir::Type::Scalar(op.operand(side)->type.element), 0);
  };
  // Sums run over these; both sides, since what one pads with may be NaN.
  for (int side = 0; side < 2; ++side) {
    const TensorFactors& tensor = local.rule.operands[side];
    for (size_t d = 0; d < tensor.size(); ++d) {
      const Factor& factor = local.rule.factors[tensor[d].back()];
      if (factor.kind != Kind::kReduction || (side == 0 && factor.window)) continue;
      local.operands[side] =
          MaskPadding(local.e, local.operands[side], op.operand(side)->type,
                      local.operand_shardings[side], static_cast<int>(d), zero(side));
    }
  }
  const Fetched fetched = FetchWindows(local, 0, ImageWindows(op), zero(0));
  local.operands[0] = fetched.value;
  std::vector<int64_t> padding = op.IntList("padding");
  std::vector<int64_t> dilation = op.IntList("lhs_dilation");
  const std::vector<Spatial> spatial = SpatialOf(op);
  padding.resize(2 * spatial.size(), 0);
  dilation.resize(spatial.size(), 1);
  for (size_t i = 0; i < spatial.size(); ++i) {
    int64_t& low = padding[2 * i];
    int64_t& high = padding[2 * i + 1];
    if (const auto& window = fetched.dims[spatial[i].image]; window.has_value()) {
      low = window->low;
      high = window->high;
      if (!window->phases.empty()) dilation[i] = 1;
    }
    local.operands[0] =
        SliceDropped(local.e, local.operands[0], spatial[i].image, dilation[i], low, high);
  }
  ir::Set(attributes, "padding", std::move(padding));
  ir::Set(attributes, "lhs_dilation", std::move(dilation));
  if (const int64_t groups = op.Int("feature_group_count", 1); groups > 1) {
    const int g = image[op.Int("input_feature_dimension")][0];
    ir::Set(attributes, "feature_group_count", groups / local.parts(g));
  }
  if (const int64_t groups = op.Int("batch_group_count", 1); groups > 1) {
    const int g = image[op.Int("input_batch_dimension")][0];
    ir::Set(attributes, "batch_group_count", groups / local.parts(g));
  }
  return EmitWith(local, std::move(attributes));
}

}  // namespace shardway::spmd
