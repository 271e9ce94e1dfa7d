// op_sharding_rule of a custom call: every factor it speaks of exists, every value has a mapping of
// its rank.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "shardway/ir/verify/check.h"

namespace shardway::ir::verify {
namespace {

bool InRange(const std::vector<int64_t>& factors, const SdyShardingRule& rule) {
  const auto count = static_cast<int64_t>(rule.factor_sizes.size());
  return std::all_of(factors.begin(), factors.end(),
                     [count](int64_t factor) { return factor >= 0 && factor < count; });
}

std::string MappingsFault(const SdyShardingRule& rule, const std::vector<Value*>& values,
                          const std::vector<SdyShardingRule::TensorMapping>& mappings) {
  if (mappings.size() != values.size()) {
    return absl::StrCat(mappings.size(), " mappings for ", values.size(), " values");
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const Type& type = values[i]->type;
    if (mappings[i].size() != (type.is_tensor() ? type.dims.size() : 0)) {
      return absl::StrCat("a mapping of rank ", mappings[i].size(), " for ", type.ToString());
    }
    std::set<int64_t> seen;
    for (const std::vector<int64_t>& dim : mappings[i]) {
      if (dim.empty() || !InRange(dim, rule)) return "a dimension of no factor, or a missing one";
      for (const int64_t factor : dim) {
        if (!seen.insert(factor).second) return "a factor twice in one value";
      }
    }
  }
  return "";
}

std::string RuleFault(const SdyShardingRule& rule, const Op& op) {
  for (const int64_t size : rule.factor_sizes) {
    if (size < 1) return absl::StrCat("a factor of size ", size);
  }
  std::string fault = MappingsFault(rule, op.operands, rule.operands);
  if (fault.empty()) fault = MappingsFault(rule, op.results, rule.results);
  std::set<int64_t> special;
  for (const auto* factors : {&rule.reduction_factors, &rule.need_replication_factors,
                              &rule.permutation_factors, &rule.blocked_propagation_factors}) {
    if (fault.empty() && !InRange(*factors, rule)) fault = "a missing factor";
    if (fault.empty() && !std::is_sorted(factors->begin(), factors->end())) {
      fault = "factors out of order";
    }
    if (fault.empty() && std::adjacent_find(factors->begin(), factors->end()) != factors->end()) {
      fault = "a factor twice";
    }
    if (factors == &rule.blocked_propagation_factors) continue;
    for (const int64_t factor : *factors) {
      if (fault.empty() && !special.insert(factor).second) fault = "a factor of two kinds";
    }
  }
  return fault;
}

}  // namespace

void VerifyShardingRule(Check& c) {
  const Attribute* attribute = c.op().Find("sdy.sharding_rule");
  if (attribute == nullptr) return;
  const auto* rule = attribute->get_if<SdyShardingRule>();
  if (!c.Require(rule != nullptr, "its sdy.sharding_rule is no rule")) return;
  const std::string fault = RuleFault(*rule, c.op());
  if (!fault.empty()) c.Fail(absl::StrCat("its sdy.sharding_rule has ", fault));
}

}  // namespace shardway::ir::verify
