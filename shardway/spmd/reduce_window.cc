// reduce_window: dimensions with a window of one element pass through.
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

int64_t At(const std::vector<int64_t>& list, size_t i) { return i < list.size() ? list[i] : 1; }

}  // namespace

OpRule ReduceWindowRule(const ir::Op& op) {
  OpRule rule;
  const size_t n = op.results.size();
  const ir::Type& from = op.operand(0)->type;
  const ir::Type& to = op.result()->type;
  const auto& window = op.IntList("window_dimensions");
  const auto& strides = op.IntList("window_strides");
  const auto& base = op.IntList("base_dilations");
  const auto& padding = op.IntList("padding");
  TensorFactors operand(from.rank());
  TensorFactors result(from.rank());
  for (int d = 0; d < from.rank(); ++d) {
    // A window of one element that steps by one and keeps the size: no padding, nothing moves.
    const bool alone = At(window, d) == 1 && At(strides, d) == 1 && At(base, d) == 1 &&
                       from.dims[d] == to.dims[d] && (padding.empty() || padding[2 * d] == 0);
    if (alone) {
      operand[d] = result[d] = {rule.AddFactor(from.dims[d])};
    } else {
      operand[d] = {rule.AddFactor(from.dims[d], Factor::Kind::kReplicated)};
      result[d] = {rule.AddFactor(to.dims[d], Factor::Kind::kReplicated)};
    }
  }
  rule.operands.assign(n, operand);
  rule.operands.resize(2 * n);
  rule.results.assign(n, result);
  return rule;
}

}  // namespace shardway::spmd
