// slice, pad, concatenate, reverse: dimensions that they leave alone pass through; the others are
// replicated.
#include <algorithm>

#include "shardway/spmd/room.h"

namespace shardway::spmd {

constexpr auto kReplicated = Factor::Kind::kReplicated;

OpRule SliceRule(const ir::Op& op) {
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
  rule.operands = {std::move(operand)};
  rule.results = {std::move(result)};
  return rule;
}

LocalResults EmitSlice(LocalOp& local) {
  ir::AttrDict attributes = local.op.attributes;
  std::vector<int64_t> limits = local.op.IntList("limit_indices");
  for (size_t d = 0; d < limits.size(); ++d) {
    if (!local.operand_shardings[0].dims[d].empty()) limits[d] = local.result_types[0].dims[d];
  }
  ir::Set(attributes, "limit_indices", std::move(limits));
  return EmitWith(local, std::move(attributes));
}

OpRule PadRule(const ir::Op& op) {
  OpRule rule;
  const ir::Type& from = op.operand(0)->type;
  const ir::Type& to = op.result()->type;
  const auto& low = op.IntList("edge_padding_low");
  const auto& high = op.IntList("edge_padding_high");
  const auto& interior = op.IntList("interior_padding");
  TensorFactors operand(from.rank());
  TensorFactors result(from.rank());
  for (int d = 0; d < from.rank(); ++d) {
    if (low[d] == 0 && high[d] == 0 && interior[d] == 0) {
      operand[d] = result[d] = {rule.AddFactor(from.dims[d])};
    } else {
      operand[d] = {rule.AddFactor(from.dims[d], kReplicated)};
      result[d] = {rule.AddFactor(to.dims[d], kReplicated)};
    }
  }
  rule.operands = {std::move(operand), {}};
  rule.results = {std::move(result)};
  return rule;
}

OpRule ConcatenateRule(const ir::Op& op) {
  OpRule rule;
  const int64_t dim = op.Int("dimension");
  TensorFactors result(op.result()->type.rank());
  for (int d = 0; d < op.result()->type.rank(); ++d) {
    const int64_t size = op.result()->type.dims[d];
    result[d] = {d == dim ? rule.AddFactor(size, kReplicated) : rule.AddFactor(size)};
  }
  for (const ir::Value* v : op.operands) {
    rule.operands.push_back(result);
    rule.operands.back()[dim] = {rule.AddFactor(v->type.dims[dim], kReplicated)};
  }
  rule.results = {std::move(result)};
  return rule;
}

OpRule ReverseRule(const ir::Op& op) {
  OpRule rule;
  TensorFactors tensor = rule.NewTensor(op.result()->type);
  for (int64_t d : op.IntList("dimensions")) rule.factors[tensor[d][0]].kind = kReplicated;
  rule.operands = {tensor};
  rule.results = {std::move(tensor)};
  return rule;
}

}  // namespace shardway::spmd
