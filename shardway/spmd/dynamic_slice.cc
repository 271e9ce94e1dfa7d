// dynamic_slice, dynamic_update_slice: dimensions taken in full pass through, and their start is 0
// whatever the index says (StableHLO clamps it there); the others are replicated.
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

constexpr auto kReplicated = Factor::Kind::kReplicated;

// Starts of split dimensions: zero.
void ZeroStarts(LocalOp& local, size_t first) {
  const Sharding& sharding = local.operand_shardings[0];
  for (int d = 0; d < sharding.rank(); ++d) {
    if (sharding.dims[d].empty()) continue;
    ir::Value*& start = local.operands[first + d];
    start = local.e.b().SplatInt(start->type, 0);
  }
}

}  // namespace

OpRule DynamicSliceRule(const ir::Op& op) {
  OpRule rule;
  const ir::Type& from = op.operand(0)->type;
  const ir::Type& to = op.result()->type;
  TensorFactors operand(from.rank());
  TensorFactors result(from.rank());
  for (int d = 0; d < from.rank(); ++d) {
    if (from.dims[d] == to.dims[d]) {
      operand[d] = result[d] = {rule.AddFactor(from.dims[d])};
    } else {
      operand[d] = {rule.AddFactor(from.dims[d], kReplicated)};
      result[d] = {rule.AddFactor(to.dims[d], kReplicated)};
    }
  }
  rule.operands.resize(op.operands.size());
  rule.operands[0] = std::move(operand);
  rule.results = {std::move(result)};
  return rule;
}

LocalResults EmitDynamicSlice(LocalOp& local) {
  ZeroStarts(local, 1);
  ir::AttrDict attributes = local.op.attributes;
  ir::Set(
      attributes, "slice_sizes",
      std::vector<int64_t>(local.result_types[0].dims.begin(), local.result_types[0].dims.end()));
  return EmitWith(local, std::move(attributes));
}

OpRule DynamicUpdateSliceRule(const ir::Op& op) {
  OpRule rule;
  const ir::Type& whole = op.operand(0)->type;
  const ir::Type& part = op.operand(1)->type;
  TensorFactors operand(whole.rank());
  TensorFactors update(whole.rank());
  for (int d = 0; d < whole.rank(); ++d) {
    if (whole.dims[d] == part.dims[d]) {
      operand[d] = update[d] = {rule.AddFactor(whole.dims[d])};
    } else {
      operand[d] = {rule.AddFactor(whole.dims[d], kReplicated)};
      update[d] = {rule.AddFactor(part.dims[d], kReplicated)};
    }
  }
  rule.operands.resize(op.operands.size());
  rule.operands[0] = operand;
  rule.operands[1] = std::move(update);
  rule.results = {std::move(operand)};
  return rule;
}

LocalResults EmitDynamicUpdateSlice(LocalOp& local) {
  ZeroStarts(local, 2);
  return EmitAsIs(local);
}

}  // namespace shardway::spmd
