#include "shardway/spmd/cut_whole.h"

namespace shardway::spmd {

std::optional<OpRule> CutWhole(const ir::Op& op, const OpRule& rule,
                               const std::vector<Sharding>& operands,
                               const std::vector<Sharding>& results) {
  std::vector<bool> wanted(rule.factors.size());
  bool any = false;
  for (size_t r = 0; r < results.size(); ++r) {
    for (size_t d = 0; d < rule.results[r].size(); ++d) {
      for (int f : rule.results[r][d]) {
        if (!rule.factors[f].cuts || results[r].dims[d].empty()) continue;
        wanted[f] = any = true;
      }
    }
  }
  if (!any) return std::nullopt;
  OpRule cut = rule;
  for (size_t i = 0; i < operands.size(); ++i) {
    for (size_t d = 0; d < rule.operands[i].size(); ++d) {
      auto& factors = cut.operands[i][d];
      if (factors.size() != 1 || !wanted[factors[0]] || !operands[i].dims[d].empty()) continue;
      const int window = factors[0];
      factors[0] =
          cut.AddFactor(op.operand(static_cast<int>(i))->type.dims[d], Factor::Kind::kReplicated);
      cut.factors.back().cut_for = window;
    }
  }
  if (cut.factors.size() == rule.factors.size()) return std::nullopt;
  return cut;
}

}  // namespace shardway::spmd
