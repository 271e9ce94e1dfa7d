// dot_general: batch and free dimensions pass through, contracting dimensions are reductions
// combined by a sum. Any mix of them may be split, each over its own axes.
#include <algorithm>

#include "shardway/spmd/compute_sharding.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {

OpRule DotGeneralRule(const ir::Op& op) {
  OpRule rule;
  rule.combine = collective::Reduction::kSum;
  const ir::Type& lhs = op.operand(0)->type;
  const ir::Type& rhs = op.operand(1)->type;
  TensorFactors left(lhs.rank());
  TensorFactors right(rhs.rank());
  TensorFactors result;
  const auto& lhs_batch = op.IntList("lhs_batching_dimensions");
  const auto& rhs_batch = op.IntList("rhs_batching_dimensions");
  for (size_t i = 0; i < lhs_batch.size(); ++i) {
    const int f = rule.AddFactor(lhs.dims[lhs_batch[i]]);
    left[lhs_batch[i]] = {f};
    right[rhs_batch[i]] = {f};
    result.push_back({f});
  }
  const auto& lhs_contracting = op.IntList("lhs_contracting_dimensions");
  const auto& rhs_contracting = op.IntList("rhs_contracting_dimensions");
  for (size_t i = 0; i < lhs_contracting.size(); ++i) {
    const int f = rule.AddFactor(lhs.dims[lhs_contracting[i]], Factor::Kind::kReduction);
    left[lhs_contracting[i]] = {f};
    right[rhs_contracting[i]] = {f};
  }
  for (TensorFactors* side : {&left, &right}) {
    const ir::Type& type = side == &left ? lhs : rhs;
    for (int d = 0; d < type.rank(); ++d) {
      if (!(*side)[d].empty()) continue;
      (*side)[d] = {rule.AddFactor(type.dims[d])};
      result.push_back((*side)[d]);
    }
  }
  rule.operands = {std::move(left), std::move(right)};
  rule.results = {std::move(result)};
  return rule;
}

LocalResults EmitDotGeneral(LocalOp& local) {
  // Both sides: what one pads with may be NaN, and NaN times zero is not zero.
  for (int side = 0; side < 2; ++side) {
    const TensorFactors& factors = local.rule.operands[side];
    for (size_t d = 0; d < factors.size(); ++d) {
      const int f = factors[d][0];
      if (local.rule.factors[f].kind != Factor::Kind::kReduction || !local.uneven(f)) continue;
      const ir::Type& type = local.op.operand(side)->type;
      ir::Value* zero = local.e.b().SplatInt(ir::Type::Scalar(type.element), 0);
      local.operands[side] = MaskPadding(local.e, local.operands[side], type,
                                         local.operand_shardings[side], static_cast<int>(d), zero);
    }
  }
  LocalResults results = EmitAsIs(local);
  if (results.ok()) {
    local.e.SetDistinctOver(*results->front()->def,
                            local.result_shardings[0].used() | PendingAxes(local.rule, local.axes));
  }
  return results;
}

}  // namespace shardway::spmd
