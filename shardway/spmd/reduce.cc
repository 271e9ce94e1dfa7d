// reduce: the dimensions that stay pass through; those reduced are reductions. A known body
// combines partial results with one collective; any other body (argmax, several operands) is
// applied once more to the gathered partial results. Padding is masked with the initial value,
// which is neutral by StableHLO's rules.
#include <algorithm>

#include "shardway/base/status_macros.h"
#include "shardway/spmd/combine_partials.h"
#include "shardway/spmd/reduction_of.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {

OpRule ReduceRule(const ir::Op& op) {
  OpRule rule;
  const size_t n = op.results.size();
  const ir::Type& shape = op.operand(0)->type;
  const auto& reduced = op.IntList("dimensions");
  TensorFactors operand;
  TensorFactors result;
  for (int d = 0; d < shape.rank(); ++d) {
    const bool gone = std::find(reduced.begin(), reduced.end(), d) != reduced.end();
    const int f =
        rule.AddFactor(shape.dims[d], gone ? Factor::Kind::kReduction : Factor::Kind::kPassThrough);
    operand.push_back({f});
    if (!gone) result.push_back({f});
  }
  rule.operands.assign(n, operand);
  rule.operands.resize(2 * n);
  rule.results.assign(n, result);
  if (n == 1) rule.combine = ReductionOf(*op.regions[0]);
  return rule;
}

LocalResults EmitReduce(LocalOp& local) {
  const size_t n = local.op.results.size();
  const TensorFactors& factors = local.rule.operands[0];
  AxisList split;
  for (size_t d = 0; d < factors.size(); ++d) {
    const int f = factors[d][0];
    if (local.rule.factors[f].kind != Factor::Kind::kReduction) continue;
    split.insert(split.end(), local.axes[f].begin(), local.axes[f].end());
    for (size_t i = 0; i < n; ++i) {
      local.operands[i] =
          MaskPadding(local.e, local.operands[i], local.op.operand(i)->type,
                      local.operand_shardings[i], static_cast<int>(d), local.operands[n + i]);
    }
  }
  SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results, EmitAsIs(local));
  if (local.rule.combine == collective::Reduction::kNone && !split.empty()) {
    return CombineByBody(local, std::move(results), split);
  }
  return results;
}

}  // namespace shardway::spmd
