#include "shardway/spmd/op_rule.h"

namespace shardway::spmd {

bool IsConversion(const ir::Op& op) {
  if (op.kind != ir::OpKind::kCustomCall) return false;
  const std::string_view target = op.String("call_target_name");
  return target == kFullToShard || target == kShardToFull;
}

TensorFactors OpRule::NewTensor(const ir::Type& type, Factor::Kind kind) {
  TensorFactors tensor(type.rank());
  for (int d = 0; d < type.rank(); ++d) tensor[d].push_back(AddFactor(type.dims[d], kind));
  return tensor;
}

bool OpRule::Exchanges(int factor, const FactorAxes& axes, const Mesh& mesh) const {
  const Factor& f = factors[factor];
  if (axes[factor].empty()) return false;
  return f.window || (f.border && f.size % mesh.SizeOf(axes[factor]) != 0);
}

bool OpRule::Exchanges(const FactorAxes& axes, const Mesh& mesh) const {
  for (size_t f = 0; f < factors.size(); ++f) {
    if (Exchanges(static_cast<int>(f), axes, mesh)) return true;
  }
  return false;
}

OpRule ReplicatedRule(const ir::Op& op) {
  OpRule rule;
  for (const ir::Value* v : op.operands) {
    rule.operands.push_back(rule.NewTensor(v->type, Factor::Kind::kReplicated));
  }
  for (const ir::Value* v : op.results) {
    rule.results.push_back(rule.NewTensor(v->type, Factor::Kind::kReplicated));
  }
  return rule;
}

OpRule PointwiseRule(const ir::Op& op) {
  OpRule rule;
  const ir::Type& shape = op.result()->type;
  const TensorFactors whole = rule.NewTensor(shape);
  auto of = [&](const ir::Value* v) {
    return v->type.rank() == shape.rank() ? whole
                                          : rule.NewTensor(v->type, Factor::Kind::kReplicated);
  };
  for (const ir::Value* v : op.operands) rule.operands.push_back(of(v));
  for (const ir::Value* v : op.results) rule.results.push_back(of(v));
  return rule;
}

void ProjectFactors(const OpRule& rule, const TensorFactors& tensor, const Sharding& sharding,
                    const Mesh& mesh, FactorAxes& out, bool* exact) {
  for (size_t d = 0; d < tensor.size(); ++d) {
    const AxisList& axes = sharding.dims[d];
    if (axes.empty()) continue;
    const auto& factors = tensor[d];
    if (factors.size() == 1) {
      out[factors[0]] = axes;
      continue;
    }
    if (!factors.empty() && rule.factors[factors[0]].border &&
        rule.factors[factors[0]].size % mesh.size(axes[0]) != 0) {
      out[factors[0]] = axes;
      continue;
    }
    size_t at = 0;
    for (int f : factors) {
      int64_t left = rule.factors[f].size;
      while (at < axes.size() && left > 1 && left % mesh.size(axes[at]) == 0) {
        left /= mesh.size(axes[at]);
        out[f].push_back(axes[at++]);
      }
      if (left > 1) break;
    }
    if (at < axes.size() && exact != nullptr) *exact = false;
  }
}

Sharding FromFactors(const OpRule& rule, const TensorFactors& tensor, const FactorAxes& axes,
                     const Mesh& mesh) {
  Sharding sharding = Sharding::Replicated(static_cast<int>(tensor.size()));
  for (size_t d = 0; d < tensor.size(); ++d) {
    const auto& factors = tensor[d];
    for (int f : factors) {
      const int64_t count = mesh.SizeOf(axes[f]);
      const int64_t size = rule.factors[f].size;
      if (factors.size() > 1 && size % count != 0 && !(rule.factors[f].border && f == factors[0]))
        break;
      sharding.dims[d].insert(sharding.dims[d].end(), axes[f].begin(), axes[f].end());
      if (count != size) break;
    }
  }
  return sharding;
}

}  // namespace shardway::spmd
