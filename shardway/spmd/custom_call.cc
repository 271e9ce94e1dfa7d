// Custom calls. The partitioner knows one from its sdy.sharding_rule, or not at all: then it runs
// whole on every device. Exceptions, by target:
//   ragged_all_to_all           a collective
//   shardway.callback           host_callback.cc
//   annotate_device_placement   the identity, whatever the sharding
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

constexpr std::string_view kRaggedAllToAll = "ragged_all_to_all";
constexpr std::string_view kHostCallback = "shardway.callback";
constexpr std::string_view kPlacement = "annotate_device_placement";

// Whether the given rule is one of these values: every dimension the product of its factors, none
// of them twice in a tensor.
bool Fits(const ir::SdyShardingRule& rule,
          const std::vector<ir::SdyShardingRule::TensorMapping>& mappings,
          const std::vector<ir::Value*>& values) {
  if (mappings.size() != values.size()) return false;
  for (size_t i = 0; i < values.size(); ++i) {
    const ir::Type& type = values[i]->type;
    if (static_cast<int>(mappings[i].size()) != type.rank()) return false;
    std::vector<bool> seen(rule.factor_sizes.size());
    for (int d = 0; d < type.rank(); ++d) {
      int64_t left = type.dims[d];
      for (int64_t f : mappings[i][d]) {
        if (f < 0 || f >= static_cast<int64_t>(seen.size()) || seen[f]) return false;
        seen[f] = true;
        const int64_t size = rule.factor_sizes[f];
        if (size < 1 || left % size != 0) return false;
        left /= size;
      }
      if (left > 1) return false;
    }
  }
  return true;
}

TensorFactors Factors(const ir::SdyShardingRule::TensorMapping& mapping) {
  TensorFactors tensor(mapping.size());
  for (size_t d = 0; d < mapping.size(); ++d)
    tensor[d].assign(mapping[d].begin(), mapping[d].end());
  return tensor;
}

// A factor of operands only, or of results only, is no loop over both: it cannot be split, unless
// the rule says that the call sums over it. One that is summed over is in no result.
void ReplicateOneSided(OpRule& rule) {
  auto mark = [&](const std::vector<TensorFactors>& tensors) {
    std::vector<bool> seen(rule.factors.size());
    for (const TensorFactors& tensor : tensors) {
      for (const auto& dim : tensor) {
        for (int f : dim) seen[f] = true;
      }
    }
    return seen;
  };
  const std::vector<bool> in = mark(rule.operands);
  const std::vector<bool> out = mark(rule.results);
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    Factor& factor = rule.factors[f];
    const bool sums = factor.kind == Factor::Kind::kReduction;
    if (!in[f] || out[f] == sums) factor.kind = Factor::Kind::kReplicated;
  }
}

LocalResults EmitRaggedAllToAll(LocalOp& local) {
  const ir::Attribute* config = local.op.Find("backend_config");
  if (config == nullptr) config = local.op.Find("mhlo.backend_config");
  const auto* dict =
      config != nullptr ? config->get_if<std::shared_ptr<const ir::AttrDict>>() : nullptr;
  const ir::Attribute* groups = dict != nullptr ? ir::Find(**dict, "replica_groups") : nullptr;
  const ir::Constant* matrix = groups != nullptr ? groups->get_if<ir::Constant>() : nullptr;
  if (matrix == nullptr || matrix->type.rank() != 2 || matrix->type.element != ElementType::kI64 ||
      local.operands.size() != 6) {
    return absl::InvalidArgumentError(absl::StrCat("ragged_all_to_all at ",
                                                   local.op.location->ToString(),
                                                   ": its replica_groups or operands are missing"));
  }
  const std::vector<int64_t> ids = matrix->Ints();
  const int64_t total = local.e.num_replicas() * local.mesh().num_devices();
  std::vector<std::vector<int64_t>> lists(matrix->type.dims[0]);
  size_t at = 0;
  for (auto& list : lists) {
    for (int64_t i = 0; i < matrix->type.dims[1]; ++i) list.push_back(ids[at++]);
    for (int64_t id : list) {
      if (id >= 0 && id < total) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("ragged_all_to_all at ", local.op.location->ToString(), " names device ", id,
                       " of a program for ", total, " devices"));
    }
  }
  collective::Spec spec;
  spec.kind = collective::Kind::kRaggedAllToAll;
  spec.groups = local.e.GroupsFromLists(std::move(lists));
  return local.e.Collective(std::move(spec), local.operands, local.result_types);
}

}  // namespace

OpRule CustomCallRule(const ir::Op& op) {
  if (op.String("call_target_name") == kPlacement && op.operands.size() == 1)
    return PointwiseRule(op);
  const ir::Attribute* attribute = op.Find("sdy.sharding_rule");
  const auto* given = attribute != nullptr ? attribute->get_if<ir::SdyShardingRule>() : nullptr;
  if (given == nullptr || !Fits(*given, given->operands, op.operands) ||
      !Fits(*given, given->results, op.results)) {
    return ReplicatedRule(op);
  }
  OpRule rule;
  for (int64_t size : given->factor_sizes) rule.AddFactor(size);
  auto mark = [&](const std::vector<int64_t>& factors, Factor::Kind kind) {
    for (int64_t f : factors) {
      if (f >= 0 && f < static_cast<int64_t>(rule.factors.size())) rule.factors[f].kind = kind;
    }
  };
  // Shardy's reductions are sums.
  mark(given->reduction_factors, Factor::Kind::kReduction);
  mark(given->need_replication_factors, Factor::Kind::kReplicated);
  mark(given->permutation_factors, Factor::Kind::kReplicated);
  for (Factor& factor : rule.factors) factor.even = factor.kind == Factor::Kind::kReduction;
  if (!given->reduction_factors.empty()) rule.combine = collective::Reduction::kSum;
  for (int64_t f : given->blocked_propagation_factors) {
    if (f >= 0 && f < static_cast<int64_t>(rule.factors.size())) {
      rule.blocked.push_back(static_cast<int>(f));
    }
  }
  for (const auto& mapping : given->operands) rule.operands.push_back(Factors(mapping));
  for (const auto& mapping : given->results) rule.results.push_back(Factors(mapping));
  ReplicateOneSided(rule);
  return rule;
}

LocalResults EmitCustomCall(LocalOp& local) {
  const std::string_view target = local.op.String("call_target_name");
  if (target == kRaggedAllToAll) return EmitRaggedAllToAll(local);
  if (target == kHostCallback) return EmitHostCallback(local);
  if (target == kPlacement && local.operands.size() == 1) return local.operands;
  return EmitAsIs(local);
}

}  // namespace shardway::spmd
