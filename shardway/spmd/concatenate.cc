// concatenate: along its dimension every part of the result takes its stretch of each operand;
// other dimensions pass through. Operands that every device has or can make are not split.
//
// A concatenation of slices (a roll, a shift, padding that wraps around) is one rearrangement of
// what they slice: SeeThroughSlices makes it so, and the stretches of the operands are attributes.
#include "shardway/spmd/concatenate.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "shardway/spmd/halo.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

constexpr std::string_view kStarts = "shardway.starts";
constexpr std::string_view kLimits = "shardway.limits";

// Of one element, or the same everywhere.
bool HeldWhole(const ir::Value* v, int64_t dim) {
  if (v->type.dims[dim] <= 1) return true;
  if (v->def == nullptr) return false;
  if (v->def->kind == ir::OpKind::kBroadcastInDim) return v->def->operand(0)->type.rank() == 0;
  if (v->def->kind != ir::OpKind::kConstant) return false;
  const auto* constant = v->def->Find("value")->get_if<ir::Constant>();
  return constant != nullptr && constant->splat;
}

bool IsRearrangement(const ir::Op& op) { return op.Find(kStarts) != nullptr; }

HaloPlan PlanConcatenate(const ir::Op& op, const OpRule& rule, int64_t parts) {
  const int64_t dim = op.Int("dimension");
  const int64_t tile = sharding::CeilDiv(op.result()->type.dims[dim], parts);
  HaloNeeds needs;
  needs.width = tile;
  needs.parts.resize(parts);
  std::vector<int64_t> tiles;
  absl::flat_hash_map<const ir::Value*, int> sources;  // the same tensor twice is one source
  int64_t offset = 0;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ir::Value* v = op.operands[i];
    const int source = sources.emplace(v, static_cast<int>(i)).first->second;
    const bool whole = rule.operands[i][dim] != rule.results[0][dim];
    tiles.push_back(whole ? kHeldWhole : sharding::CeilDiv(v->type.dims[dim], parts));
    const int64_t start = StartOf(op, i);
    const int64_t length = LimitOf(op, i) - start;
    for (int64_t p = 0; p < parts; ++p) {
      const int64_t from = std::max(p * tile, offset);
      const int64_t limit = std::min((p + 1) * tile, offset + length);
      if (from >= limit) continue;
      needs.Add(p, source, v->type.dims[dim], start + from - offset, limit - from, from - p * tile);
    }
    offset += length;
  }
  return PlanHalo(needs, tiles);
}

}  // namespace

int64_t StartOf(const ir::Op& op, size_t i) {
  return IsRearrangement(op) ? op.IntList(kStarts)[i] : 0;
}
int64_t LimitOf(const ir::Op& op, size_t i) {
  return IsRearrangement(op) ? op.IntList(kLimits)[i]
                             : op.operands[i]->type.dims[op.Int("dimension")];
}

void SeeThroughSlices(ir::Op& op) {
  ir::Erase(op.attributes, kStarts);  // they are ours to set
  ir::Erase(op.attributes, kLimits);
  const int64_t dim = op.Int("dimension");
  std::vector<ir::Value*> operands = op.operands;
  std::vector<int64_t> starts, limits;
  absl::flat_hash_map<const ir::Value*, int64_t> used;  // of tensors that are sliced
  absl::flat_hash_map<const ir::Value*, int64_t> whole_used;
  for (ir::Value*& v : operands) {
    const ir::Op* slice = v->def;
    starts.push_back(0);
    limits.push_back(v->type.dims[dim]);
    if (slice == nullptr || slice->kind != ir::OpKind::kSlice) {
      whole_used[v] += limits.back();
      continue;
    }
    const ir::Type& whole = slice->operand(0)->type;
    bool along = slice->IntList("strides")[dim] == 1;
    for (int d = 0; d < whole.rank(); ++d) along &= d == dim || whole.dims[d] == v->type.dims[d];
    if (!along) continue;
    starts.back() = slice->IntList("start_indices")[dim];
    limits.back() = slice->IntList("limit_indices")[dim];
    v = slice->operand(0);
    used[v] += limits.back() - starts.back();
  }
  if (used.empty()) return;
  // A few rows of a large tensor are better taken out of it first.
  for (const auto& [whole, count] : used) {
    const auto it = whole_used.find(whole);  // as itself, beside what is sliced
    const int64_t more = it == whole_used.end() ? 0 : it->second;
    if (2 * (count + more) < whole->type.dims[dim]) return;
  }
  op.operands = std::move(operands);
  ir::Set(op.attributes, kStarts, std::move(starts));
  ir::Set(op.attributes, kLimits, std::move(limits));
}

OpRule ConcatenateRule(const ir::Op& op) {
  OpRule rule;
  const int64_t dim = op.Int("dimension");
  const ir::Type& type = op.result()->type;
  TensorFactors result = rule.NewTensor(type);
  Factor& window = rule.factors[result[dim][0]];
  window.window = window.cuts = true;
  for (const ir::Value* v : op.operands) {
    rule.operands.push_back(result);
    if (HeldWhole(v, dim)) {
      rule.operands.back()[dim] = {rule.AddFactor(v->type.dims[dim], Factor::Kind::kReplicated)};
    }
  }
  rule.results = {std::move(result)};
  return rule;
}

double ConcatenateExchange(const ir::Op& op, const OpRule& rule, const FactorAxes& axes,
                           const Mesh& mesh) {
  const int64_t dim = op.Int("dimension");
  const TensorFactors& result = rule.results[0];
  ir::Type row =
      sharding::LocalType(op.result()->type, FromFactors(rule, result, axes, mesh), mesh);
  row.dims[dim] = 1;
  const AxisList& split = axes[result[dim][0]];
  const HaloPlan plan = PlanConcatenate(op, rule, mesh.SizeOf(split));
  return CostOver(plan.traffic(static_cast<double>(row.num_bytes())), mesh, split);
}

LocalResults EmitConcatenate(LocalOp& local) {
  const int64_t dim = local.op.Int("dimension");
  const int f = local.rule.results[0][dim][0];
  if (!local.axes[f].empty()) {
    return std::vector<ir::Value*>{
        EmitHalo(local.e, PlanConcatenate(local.op, local.rule, local.parts(f)), local.operands,
                 static_cast<int>(dim), local.axes[f], nullptr)};
  }
  if (!IsRearrangement(local.op)) return EmitAsIs(local);
  std::vector<ir::Value*> stretches;
  for (size_t i = 0; i < local.operands.size(); ++i) {
    ir::Value* v = local.operands[i];
    std::vector<int64_t> starts(v->type.rank());
    std::vector<int64_t> limits(v->type.dims.begin(), v->type.dims.end());
    starts[dim] = StartOf(local.op, i);
    limits[dim] = LimitOf(local.op, i);
    const bool all = starts[dim] == 0 && limits[dim] == v->type.dims[dim];
    stretches.push_back(all ? v : local.e.b().Slice(v, starts, limits));
  }
  return std::vector<ir::Value*>{local.e.b().Concatenate(stretches, dim)};
}

}  // namespace shardway::spmd
