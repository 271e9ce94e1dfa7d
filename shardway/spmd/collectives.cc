// The user's own collectives, inside manual regions (shard_map) and between replicas (pmap).
// Dimensions that the collective does not rearrange may still be split over the axes that are not
// manual.
#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/spmd/reduction_of.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

using collective::Kind;
using Lists = std::vector<std::vector<int64_t>>;

absl::StatusOr<Lists> ReplicaGroups(const ir::Op& op) {
  const ir::Attribute* attribute = op.Find("replica_groups");
  if (attribute == nullptr) return Lists();
  const ir::Constant* c = attribute->get_if<ir::Constant>();
  if (c == nullptr || c->type.rank() != 2) {
    return absl::UnimplementedError(
        absl::StrCat(std::string(ir::OpKindName(op.kind)), " at ", op.location->ToString(),
                     ": replica_groups must be a matrix of device ids"));
  }
  const std::vector<int64_t> ids = c->Ints();
  Lists lists(c->type.dims[0]);
  size_t at = 0;
  for (auto& list : lists) {
    for (int64_t i = 0; i < c->type.dims[1]; ++i, ++at) {
      if (ids[at] >= 0) list.push_back(ids[at]);  // groups of unequal size are filled up with -1
    }
  }
  return lists;
}

// StableHLO's four readings of replica_groups, as groups of logical devices (replica-major).
absl::StatusOr<Lists> LogicalGroups(const LocalOp& local, bool among_partitions_by_channel) {
  const ir::Op& op = local.op;
  SHARDWAY_ASSIGN_OR_RETURN(Lists groups, ReplicaGroups(op));
  const int64_t replicas = local.e.num_replicas();
  const int64_t partitions = local.mesh().num_devices();
  const bool channel = op.Int("channel_id") > 0;
  if (op.Bool("use_global_device_ids") && channel) {
    if (groups.empty()) groups.emplace_back();
    if (groups.size() == 1 && groups[0].empty()) {
      for (int64_t d = 0; d < replicas * partitions; ++d) groups[0].push_back(d);
    }
    return groups;
  }
  const bool by_partition = channel && among_partitions_by_channel;
  const int64_t ids = by_partition ? partitions : replicas;
  if (groups.empty() || (groups.size() == 1 && groups[0].empty())) {
    groups.assign(1, {});
    for (int64_t i = 0; i < ids; ++i) groups[0].push_back(i);
  }
  Lists logical;
  for (const auto& group : groups) {
    if (by_partition) {
      for (int64_t r = 0; r < replicas; ++r) {
        logical.emplace_back();
        for (int64_t p : group) logical.back().push_back(r * partitions + p);
      }
    } else if (channel) {  // those replicas, in all partitions
      logical.emplace_back();
      for (int64_t r : group) {
        for (int64_t p = 0; p < partitions; ++p) logical.back().push_back(r * partitions + p);
      }
    } else {
      for (int64_t p = 0; p < partitions; ++p) {
        logical.emplace_back();
        for (int64_t r : group) logical.back().push_back(r * partitions + p);
      }
    }
  }
  return logical;
}

// Pairs of partitions (with a channel) or of replicas, as pairs of logical devices.
Emitter::Pairs LogicalPairs(const LocalOp& local) {
  const auto& flat = local.op.IntList("source_target_pairs");
  const int64_t replicas = local.e.num_replicas();
  const int64_t partitions = local.mesh().num_devices();
  const bool channel = local.op.Int("channel_id") > 0;
  Emitter::Pairs pairs;
  for (size_t i = 0; i + 1 < flat.size(); i += 2) {
    const int64_t copies = channel ? replicas : partitions;
    for (int64_t c = 0; c < copies; ++c) {
      if (channel) {
        pairs.emplace_back(c * partitions + flat[i], c * partitions + flat[i + 1]);
      } else {
        pairs.emplace_back(flat[i] * partitions + c, flat[i + 1] * partitions + c);
      }
    }
  }
  return pairs;
}

absl::Status Outside(const ir::Op& op, int64_t device, int64_t total) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(ir::OpKindName(op.kind)), " at ",
                                                 op.location->ToString(), " names device ", device,
                                                 " of a program for ", total, " devices"));
}

}  // namespace

OpRule CollectiveRule(const ir::Op& op) {
  OpRule rule;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ir::Type& from = op.operand(i)->type;
    const ir::Type& to = op.result(i)->type;
    TensorFactors operand = rule.NewTensor(from);
    TensorFactors result = operand;
    auto rearranged = [&](int64_t d) {
      if (d < 0 || d >= from.rank()) return;
      operand[d] = {rule.AddFactor(from.dims[d], Factor::Kind::kReplicated)};
      result[d] = {rule.AddFactor(to.dims[d], Factor::Kind::kReplicated)};
    };
    if (op.kind == ir::OpKind::kAllGather) rearranged(op.Int("all_gather_dim"));
    if (op.kind == ir::OpKind::kReduceScatter) rearranged(op.Int("scatter_dimension"));
    if (op.kind == ir::OpKind::kAllToAll) {
      rearranged(op.Int("split_dimension"));
      rearranged(op.Int("concat_dimension"));
    }
    rule.operands.push_back(std::move(operand));
    rule.results.push_back(std::move(result));
  }
  return rule;
}

LocalResults EmitCollective(LocalOp& local) {
  const ir::Op& op = local.op;
  const int64_t total = local.e.num_replicas() * local.mesh().num_devices();
  collective::Spec spec;
  bool by_partition = false;
  switch (op.kind) {
    case ir::OpKind::kAllReduce:
      spec.kind = Kind::kAllReduce;
      break;
    case ir::OpKind::kCrossReplicaSum:
      spec.kind = Kind::kAllReduce;
      break;
    case ir::OpKind::kAllGather:
      spec.kind = Kind::kAllGather;
      spec.dim0 = op.Int("all_gather_dim");
      break;
    case ir::OpKind::kReduceScatter:
      spec.kind = Kind::kReduceScatter;
      spec.dim0 = op.Int("scatter_dimension");
      break;
    case ir::OpKind::kAllToAll:
      spec.kind = Kind::kAllToAll;
      spec.dim0 = op.Int("split_dimension");
      spec.dim1 = op.Int("concat_dimension");
      by_partition = true;
      break;
    case ir::OpKind::kCollectiveBroadcast:
      spec.kind = Kind::kCollectiveBroadcast;
      by_partition = true;
      break;
    default:
      spec.kind = Kind::kCollectivePermute;
      break;
  }
  if (op.kind == ir::OpKind::kCrossReplicaSum) {
    spec.reduction = collective::Reduction::kSum;
  } else if (spec.kind == Kind::kAllReduce || spec.kind == Kind::kReduceScatter) {
    spec.reduction = ReductionOf(*op.regions[0]);
    if (spec.reduction == collective::Reduction::kNone) {
      return absl::UnimplementedError(absl::StrCat(
          std::string(ir::OpKindName(op.kind)), " at ", op.location->ToString(),
          ": the reduction must be one of add, multiply, minimum, maximum, and, or, xor"));
    }
  }
  if (spec.kind == Kind::kCollectivePermute) {
    Emitter::Pairs pairs = LogicalPairs(local);
    for (auto [from, to] : pairs) {
      if (from < 0 || from >= total) return Outside(op, from, total);
      if (to < 0 || to >= total) return Outside(op, to, total);
    }
    local.e.SetPairs(spec, std::move(pairs));
  } else {
    SHARDWAY_ASSIGN_OR_RETURN(Lists groups, LogicalGroups(local, by_partition));
    for (const auto& group : groups) {
      for (int64_t d : group) {
        if (d < 0 || d >= total) return Outside(op, d, total);
      }
    }
    spec.groups = local.e.GroupsFromLists(std::move(groups));
  }
  return local.e.Collective(std::move(spec), local.operands, local.result_types);
}

OpRule PlaceRule(const ir::Op& op) { return ReplicatedRule(op); }

LocalResults EmitPlace(LocalOp& local) {
  return std::vector<ir::Value*>{local.op.kind == ir::OpKind::kPartitionId ? local.e.PartitionId()
                                                                           : local.e.ReplicaId()};
}

}  // namespace shardway::spmd
