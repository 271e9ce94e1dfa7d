// reshape: operand and result are cut into their common factors, from the major side.
//
//   [6] → [2,3]        {a·b} → {a},{b}
//   [4,6] → [8,3]      {a},{b·c} → {a·b},{c}          a=4, b=2, c=3
//   [6,4] → [4,6]      {a·_},{_} → {a·_},{_}          a=2; what is left shares no border:
//   replicated
//
// A factor that begins a dimension on both sides may be split although it does not divide. The
// tiles then hold other stretches of the same elements before and after, and their borders are
// moved by a halo exchange: [131,64] → [262,32] over 8 has tiles of 17 · 64 elements, then of 33
// · 32.
#include <numeric>

#include "absl/status/status.h"
#include "shardway/spmd/halo.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

constexpr auto kReplicated = Factor::Kind::kReplicated;

// One side of the reshape while it is cut: the dimension we are in and what is left of it.
struct Side {
  const ir::Dims& dims;
  TensorFactors factors;
  size_t at = 0;
  int64_t left = 1;

  explicit Side(const ir::Dims& d) : dims(d), factors(d.size()) {
    if (!dims.empty()) left = dims[0];
    SkipOnes();
  }
  bool done() const { return at >= dims.size(); }
  void SkipOnes() {
    while (!done() && left == 1) {
      if (++at < dims.size()) left = dims[at];
    }
  }
  void Take(int factor, int64_t size) {
    factors[at].push_back(factor);
    left /= size;
    SkipOnes();
  }
};

// Nothing in common from here to the next border that both sides share.
void TakeUnrelated(OpRule& rule, Side& a, Side& b) {
  int64_t product_a = 1;
  int64_t product_b = 1;
  auto take = [&](Side& side, int64_t& product) {
    const int64_t size = side.left;
    product *= size;
    side.Take(rule.AddFactor(size, kReplicated), size);
  };
  take(a, product_a);
  take(b, product_b);
  while (product_a != product_b) {
    if (product_a < product_b && !a.done()) {
      take(a, product_a);
    } else if (!b.done()) {
      take(b, product_b);
    } else {
      return;
    }
  }
}

// Dimensions of operand and result from one common border to the next, the first of which is split
// as a whole.
struct Group {
  int factor;
  int from, to;                  // those first dimensions
  int64_t inner_from, inner_to;  // elements of one row of them, within the group
  int64_t unit;                  // elements that no tile's border divides, on either side
};

std::vector<Group> UnevenGroups(const ir::Type& from, const ir::Type& to, const OpRule& rule,
                                const FactorAxes& axes, const Mesh& mesh) {
  std::vector<Group> groups;
  for (int a = 0; a < from.rank(); ++a) {
    const auto& factors = rule.operands[0][a];
    if (factors.empty() || !rule.Exchanges(factors[0], axes, mesh)) continue;
    Group group{factors[0], a, 0, 1, 1, 1};
    while (rule.results[0][group.to].empty() || rule.results[0][group.to][0] != group.factor)
      ++group.to;
    int last_from = group.from, last_to = group.to;
    int64_t size_from = from.dims[group.from], size_to = to.dims[group.to];
    while (size_from != size_to) {
      if (size_from < size_to) {
        size_from *= from.dims[++last_from];
        group.inner_from *= from.dims[last_from];
      } else {
        size_to *= to.dims[++last_to];
        group.inner_to *= to.dims[last_to];
      }
    }
    group.unit = std::gcd(group.inner_from, group.inner_to);
    groups.push_back(group);
  }
  return groups;
}

// In units.
struct Borders {
  int64_t tile_from, tile_to;
  HaloPlan plan;
};

Borders PlanBorders(const Group& group, const ir::Type& from, const ir::Type& to, int64_t parts) {
  Borders borders;
  borders.tile_from =
      sharding::CeilDiv(from.dims[group.from], parts) * group.inner_from / group.unit;
  borders.tile_to = sharding::CeilDiv(to.dims[group.to], parts) * group.inner_to / group.unit;
  const int64_t size = from.dims[group.from] * group.inner_from / group.unit;
  HaloNeeds needs;
  needs.width = borders.tile_to;
  needs.parts.resize(parts);
  for (int64_t p = 0; p < parts; ++p)
    needs.Add(p, 0, size, p * borders.tile_to, borders.tile_to, 0);
  borders.plan = PlanHalo(needs, {&borders.tile_from, 1});
  return borders;
}

}  // namespace

OpRule ReshapeRule(const ir::Op& op) {
  const ir::Type& from = op.operand(0)->type;
  const ir::Type& to = op.result()->type;
  if (from.num_elements() == 0) return ReplicatedRule(op);
  OpRule rule;
  Side a(from.dims);
  Side b(to.dims);
  while (!a.done() && !b.done()) {
    const int64_t common = std::gcd(a.left, b.left);
    if (common == 1) {
      TakeUnrelated(rule, a, b);
      continue;
    }
    const bool border = common == a.left || common == b.left;
    const int factor = rule.AddFactor(common);
    // From here on both sides have the same elements, in the same order.
    rule.factors[factor].border = a.factors[a.at].empty() && b.factors[b.at].empty() &&
                                  (common != a.left || common != b.left);
    a.Take(factor, common);
    b.Take(factor, common);
    if (!border) TakeUnrelated(rule, a, b);
  }
  rule.operands.push_back(std::move(a.factors));
  rule.results.push_back(std::move(b.factors));
  return rule;
}

double ReshapeExchange(const ir::Op& op, const OpRule& rule, const FactorAxes& axes,
                       const Mesh& mesh) {
  const ir::Type& from = op.operand(0)->type;
  const ir::Type& to = op.result()->type;
  const auto bytes = static_cast<double>(
      sharding::LocalType(from, FromFactors(rule, rule.operands[0], axes, mesh), mesh).num_bytes());
  double cost = 0;
  for (const Group& group : UnevenGroups(from, to, rule, axes, mesh)) {
    const Borders borders = PlanBorders(group, from, to, mesh.SizeOf(axes[group.factor]));
    if (borders.tile_from == borders.tile_to) continue;
    cost += CostOver(borders.plan.traffic(bytes / static_cast<double>(borders.tile_from)), mesh,
                     axes[group.factor]);
  }
  return cost;
}

LocalResults EmitReshape(LocalOp& local) {
  const ir::Type& from = local.op.operand(0)->type;
  const ir::Type& to = local.op.result()->type;
  ir::Builder& b = local.e.b();
  ir::Value*& x = local.operands[0];
  // From the major groups to the minor ones: what lies before a group is as in the result already.
  for (const Group& group : UnevenGroups(from, to, local.rule, local.axes, local.mesh())) {
    const Borders borders = PlanBorders(group, from, to, local.parts(group.factor));
    if (borders.tile_from == borders.tile_to) continue;
    int64_t before = 1;
    for (int d = 0; d < group.to; ++d) before *= local.result_types[0].dims[d];
    const int64_t dims[] = {before, borders.tile_from,
                            x->type.num_elements() / (before * borders.tile_from)};
    x = b.Reshape(x, dims);
    x = EmitHalo(local.e, borders.plan, {&x, 1}, 1, local.axes[group.factor], nullptr);
  }
  if (x->type.num_elements() != local.result_types[0].num_elements())
    return absl::InternalError("a reshape whose tiles have other sizes before and after");
  return std::vector<ir::Value*>{b.Reshape(x, local.result_types[0].dims)};
}

}  // namespace shardway::spmd
