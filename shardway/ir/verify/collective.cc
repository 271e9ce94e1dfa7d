#include <algorithm>
#include <set>

#include "shardway/ir/verify/check.h"

namespace shardway::ir::verify {
namespace {

// A matrix of distinct ids, short rows filled with -1. `all`: no id below the largest is missing.
void VerifyGroups(Check& c, bool all = true) {
  const Attribute* attribute = c.op().Find("replica_groups");
  const auto* groups = attribute == nullptr ? nullptr : attribute->get_if<Constant>();
  if (!c.Require(groups != nullptr && groups->type.rank() == 2 && IsInteger(groups->type.element) &&
                     groups->type.is_static(),
                 "its replica_groups are no matrix of integers")) {
    return;
  }
  std::set<int64_t> seen;
  for (const int64_t id : groups->Ints()) {
    if (id == -1) continue;
    if (!c.Require(id >= 0 && seen.insert(id).second,
                   "its replica_groups name a device twice, or a negative one")) {
      return;
    }
  }
  c.Require(!c.op().Bool("use_global_device_ids") || c.op().Int("channel_id") > 0,
            "it has global device ids and no channel");
  c.Require(!all || seen.empty() || *seen.rbegin() == static_cast<int64_t>(seen.size()) - 1,
            "its replica_groups leave a device out");
}

bool SameCounts(Check& c) {
  return c.Counts(-1, static_cast<int>(c.num_in()), -1) && c.AllTensors() &&
         c.Require(c.num_in() >= 1, "it has no operand");
}

// Every result has its operand's elements: nothing is converted on the way.
bool SameElements(Check& c) {
  for (size_t i = 0; i < c.num_out(); ++i) {
    if (!c.Require(c.in(i).element == c.out(i).element,
                   "a result has other elements than its operand")) {
      return false;
    }
  }
  return true;
}

// Results are like operands but for `dimension`, where one is a multiple of the other.
void Scaled(Check& c, std::string_view dimension, bool grows) {
  if (!SameElements(c)) return;
  for (size_t i = 0; i < c.num_in(); ++i) {
    const Type& in = c.in(i);
    const Type& out = c.out(i);
    if (!c.IntIn(dimension, 0, in.rank())) return;
    if (!c.Require(in.rank() == out.rank(), "a result has another rank")) return;
    for (int d = 0; d < in.rank(); ++d) {
      const int64_t large = grows ? out.dim(d) : in.dim(d);
      const int64_t small = grows ? in.dim(d) : out.dim(d);
      const bool dynamic = large == kDynamic || small == kDynamic;
      const bool multiple = small == 0 ? large == 0 : large % small == 0;
      c.Require(d == c.op().Int(dimension) ? dynamic || multiple : SameSize(large, small),
                "a result has another shape than its operand allows");
    }
  }
}

void VerifyAllReduce(Check& c) {
  if (!SameCounts(c)) return;
  for (size_t i = 0; i < c.num_in(); ++i) {
    c.SameAsOperand(i, i);
    c.Require(c.in(i).element == c.in().element, "its operands differ in their elements");
  }
  VerifyGroups(c);
  if (c.Require(c.op().regions.size() == 1, "it has not one region")) {
    c.Reducer(*c.op().regions[0], {c.in().element});
  }
}

void VerifyReduceScatter(Check& c) {
  if (!c.Counts(1, 1, 1) || !c.AllTensors()) return;
  Scaled(c, "scatter_dimension", /*grows=*/false);
  VerifyGroups(c);
  c.Reducer(*c.op().regions[0], {c.in().element});
}

void VerifyAllToAll(Check& c) {
  if (!SameCounts(c) || !SameElements(c)) return;
  VerifyGroups(c);
  const Type& first = c.in();
  if (!c.IntIn("split_dimension", 0, first.rank()) ||
      !c.IntIn("concat_dimension", 0, first.rank()) || !c.IntIn("split_count", 1, INT64_MAX)) {
    return;
  }
  const int64_t count = c.op().Int("split_count");
  const auto split = static_cast<int>(c.op().Int("split_dimension"));
  const auto concat = static_cast<int>(c.op().Int("concat_dimension"));
  for (size_t i = 0; i < c.num_in(); ++i) {
    const Type& in = c.in(i);
    if (!c.Require(
            in.rank() == first.rank() && (in.dim(split) == kDynamic || in.dim(split) % count == 0),
            "its split_count does not divide its operand")) {
      return;
    }
    std::vector<Wide> dims(in.dims.begin(), in.dims.end());
    if (dims[split] >= 0) dims[split] /= count;
    if (dims[concat] >= 0) dims[concat] *= count;
    c.ResultDims(dims, i);
  }
}

void VerifyPermute(Check& c) {
  if (!c.Counts(1) || !c.AllTensors()) return;
  c.SameAsOperand(0, 0);
  const std::vector<int64_t>& pairs = c.op().IntList("source_target_pairs");
  std::set<int64_t> ends[2];
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (!c.Require(pairs[i] >= 0 && ends[i % 2].insert(pairs[i]).second,
                   "its pairs name a source or target twice, or a negative one")) {
      return;
    }
  }
  c.Require(pairs.size() % 2 == 0, "its pairs are incomplete");
}

void VerifyRooted(Check& c) {
  const bool dynamic_root = c.op().Bool("has_dynamic_root");
  if (!c.Counts(-1, 1, -1) || !c.AllTensors() ||
      !c.Require(c.num_in() == (dynamic_root ? 2u : 1u), "it has the wrong number of operands")) {
    return;
  }
  c.SameAsOperand(0, 0);
  VerifyGroups(c, /*all=*/false);
  if (c.op().kind == OpKind::kCollectiveReduce &&
      c.Require(c.op().regions.size() == 1, "it has not one region")) {
    c.Reducer(*c.op().regions[0], {c.in().element});
  }
}

}  // namespace

void VerifyCollective(Check& c) {
  switch (c.op().kind) {
    case OpKind::kAllReduce:
      return VerifyAllReduce(c);
    case OpKind::kAllGather:
      if (SameCounts(c)) {
        Scaled(c, "all_gather_dim", /*grows=*/true);
        VerifyGroups(c);
      }
      return;
    case OpKind::kReduceScatter:
      return VerifyReduceScatter(c);
    case OpKind::kAllToAll:
      return VerifyAllToAll(c);
    case OpKind::kCollectivePermute:
      return VerifyPermute(c);
    case OpKind::kCollectiveBroadcast:
    case OpKind::kCollectiveReduce:
      return VerifyRooted(c);
    case OpKind::kCrossReplicaSum:
      if (c.Counts(1) && c.AllTensors()) c.SameAsOperand(0, 0);
      return VerifyGroups(c);
    case OpKind::kReplicaId:
    case OpKind::kPartitionId:
      if (c.Counts(0) && c.AllTensors()) c.Require(IsScalar(c.out()), "its result is no scalar");
      return;
    default:
      return;
  }
}

}  // namespace shardway::ir::verify
