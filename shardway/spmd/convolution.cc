// convolution: batch and output features pass through, input features are a reduction; spatial
// dimensions and grouped features are replicated.
#include "shardway/spmd/room.h"

namespace shardway::spmd {

OpRule ConvolutionRule(const ir::Op& op) {
  OpRule rule;
  rule.combine = collective::Reduction::kSum;
  using Kind = Factor::Kind;
  const bool grouped = op.Int("feature_group_count", 1) != 1 || op.Int("batch_group_count", 1) != 1;
  const ir::Type& lhs = op.operand(0)->type;
  const ir::Type& rhs = op.operand(1)->type;
  const ir::Type& out = op.result()->type;
  TensorFactors image = rule.NewTensor(lhs, Kind::kReplicated);
  TensorFactors kernel = rule.NewTensor(rhs, Kind::kReplicated);
  TensorFactors result = rule.NewTensor(out, Kind::kReplicated);
  if (op.Int("batch_group_count", 1) == 1) {
    const int64_t in = op.Int("input_batch_dimension");
    image[in] = {rule.AddFactor(lhs.dims[in])};
    result[op.Int("output_batch_dimension")] = image[in];
  }
  if (!grouped) {
    const int64_t in = op.Int("input_feature_dimension");
    image[in] = {rule.AddFactor(lhs.dims[in], Kind::kReduction)};
    kernel[op.Int("kernel_input_feature_dimension")] = image[in];
    const int64_t features = op.Int("kernel_output_feature_dimension");
    kernel[features] = {rule.AddFactor(rhs.dims[features])};
    result[op.Int("output_feature_dimension")] = kernel[features];
  }
  rule.operands = {std::move(image), std::move(kernel)};
  rule.results = {std::move(result)};
  return rule;
}

LocalResults EmitConvolution(LocalOp& local) { return EmitDotGeneral(local); }

}  // namespace shardway::spmd
