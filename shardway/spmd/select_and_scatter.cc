// select_and_scatter (the gradient of a max pool): a part takes the sources whose windows touch its
// tile, and the operand under those windows; it scatters into that and keeps its tile. What the
// operand lacks never wins a comparison, what the sources lack adds nothing.
#include <algorithm>
#include <limits>

#include "shardway/spmd/halo.h"
#include "shardway/spmd/part_values.h"
#include "shardway/spmd/reduction_of.h"
#include "shardway/spmd/room.h"
#include "shardway/spmd/window_dim.h"

namespace shardway::spmd {
namespace {

using Kind = Factor::Kind;

struct Dim {
  int64_t size, sources, window, stride, low;
  bool moves() const { return window != 1 || stride != 1 || low != 0 || size != sources; }
};

Dim DimOf(const ir::Op& op, int d) {
  auto at = [&](std::string_view name, int64_t fallback) {
    const auto& list = op.IntList(name);
    return list.empty() ? fallback : list[d];
  };
  const auto& padding = op.IntList("padding");
  return {op.operand(0)->type.dims[d], op.operand(1)->type.dims[d], at("window_dimensions", 1),
          at("window_strides", 1), padding.empty() ? 0 : padding[2 * d]};
}

// +1 when the select body keeps the greater of two, -1 the lesser, 0 for any other.
int Keeps(const ir::Region& body) {
  if (body.ops.size() != 2 || body.arguments.size() != 2) return 0;
  const ir::Op& op = *body.ops[0];
  if (op.kind != ir::OpKind::kCompare || op.operand(0) != body.arguments[0] ||
      op.operand(1) != body.arguments[1] || body.ops[1]->operand(0) != op.result()) {
    return 0;
  }
  const std::string_view direction = op.String("comparison_direction");
  if (direction == "GE" || direction == "GT") return 1;
  return direction == "LE" || direction == "LT" ? -1 : 0;
}

bool CanSplit(const ir::Op& op) {
  const ElementType element = op.operand(0)->type.element;
  return Keeps(*op.regions[0]) != 0 && IsFloat(element) &&
         ReductionOf(*op.regions[1]) == collective::Reduction::kSum &&
         op.operand(0)->type.num_elements() > 0 && op.operand(1)->type.num_elements() > 0;
}

struct Plan {
  HaloPlan operand, sources;
  int64_t tile = 0;
  PartNumbers offset;  // of the tile in the operand's window
  int64_t before = 0;  // rows that no window touches, before and after what is scattered into
  int64_t after = 0;
};

Plan PlanDim(const Dim& dim, int64_t parts) {
  Plan plan;
  plan.tile = sharding::CeilDiv(dim.size, parts);
  HaloNeeds operand, sources;
  operand.parts.resize(parts);
  sources.parts.resize(parts);
  auto first = [&](int64_t p) {  // source whose window reaches into the tile
    return CeilDiv(p * plan.tile + dim.low - dim.window + 1, dim.stride);
  };
  auto limit = [&](int64_t end) { return FloorDiv(end - 1 + dim.low, dim.stride) + 1; };
  for (int64_t p = 0; p < parts; ++p) {
    sources.width = std::max(sources.width, limit((p + 1) * plan.tile) - first(p));
  }
  sources.width = std::max<int64_t>(sources.width, 1);
  operand.width = (sources.width - 1) * dim.stride + dim.window;
  plan.offset.resize(parts);
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t end = std::min((p + 1) * plan.tile, dim.size);
    if (p * plan.tile >= end) continue;
    const int64_t origin = first(p) * dim.stride - dim.low;
    plan.offset[p] = p * plan.tile - origin;
    plan.before = std::max(plan.before, origin - p * plan.tile);
    plan.after = std::max(plan.after, (p + 1) * plan.tile - origin - operand.width);
    const int64_t from = std::max<int64_t>(first(p), 0);
    const int64_t to = std::min(limit(end), dim.sources);
    if (from >= to) continue;
    sources.Add(p, 0, dim.sources, from, to - from, from - first(p));
    const int64_t start = from * dim.stride - dim.low;
    operand.Add(p, 0, dim.size, start, (to - 1 - from) * dim.stride + dim.window, start - origin);
  }
  for (auto& offset : plan.offset) {
    if (offset) *offset += plan.before;
  }
  const int64_t source_tile = sharding::CeilDiv(dim.sources, parts);
  plan.operand = PlanHalo(operand, {&plan.tile, 1});
  plan.sources = PlanHalo(sources, {&source_tile, 1});
  return plan;
}

ir::Value* KeepTile(Emitter& e, ir::Value* x, ir::Value* init, const Plan& plan, int dim,
                    const AxisList& axes) {
  ir::Builder& b = e.b();
  std::vector<int64_t> low(x->type.rank()), high(x->type.rank());
  low[dim] = plan.before;
  high[dim] = std::max<int64_t>(0, plan.after);
  if (low[dim] + high[dim] > 0) x = b.Pad(x, init, low, high);
  std::vector<ir::Value*> starts(x->type.rank(),
                                 b.SplatInt(ir::Type::Scalar(ElementType::kI32), 0));
  starts[dim] = NumberOfPart(e, axes, plan.offset);
  ir::Type type = x->type;
  type.dims[dim] = plan.tile;
  return b.DynamicSlice(x, starts, type.dims);
}

}  // namespace

OpRule SelectAndScatterRule(const ir::Op& op) {
  OpRule rule;
  const bool can_split = CanSplit(op);
  TensorFactors operand(op.operand(0)->type.rank());
  TensorFactors sources(operand.size());
  for (int d = 0; d < op.operand(0)->type.rank(); ++d) {
    const Dim dim = DimOf(op, d);
    if (dim.moves() && !can_split) {
      operand[d] = {rule.AddFactor(dim.size, Kind::kReplicated)};
      sources[d] = {rule.AddFactor(dim.sources, Kind::kReplicated)};
    } else {
      operand[d] = sources[d] = {dim.moves() ? rule.AddWindow(dim.size) : rule.AddFactor(dim.size)};
    }
  }
  rule.operands = {operand, std::move(sources), {}};
  rule.results = {std::move(operand)};
  return rule;
}

double SelectAndScatterExchange(const ir::Op& op, const OpRule& rule, const FactorAxes& axes,
                                const Mesh& mesh) {
  double cost = 0;
  ir::Type local[2];
  for (int i = 0; i < 2; ++i) {
    const Sharding split = FromFactors(rule, rule.operands[i], axes, mesh);
    local[i] = sharding::LocalType(op.operand(i)->type, split, mesh);
  }
  for (int d = 0; d < local[0].rank(); ++d) {
    const int f = rule.operands[0][d][0];
    if (!rule.factors[f].window || axes[f].empty()) continue;
    const Plan plan = PlanDim(DimOf(op, d), mesh.SizeOf(axes[f]));
    for (int i = 0; i < 2; ++i) {
      const HaloPlan& halo = i == 0 ? plan.operand : plan.sources;
      local[i].dims[d] = 1;
      cost += halo.Cost(static_cast<double>(local[i].num_bytes()));
      local[i].dims[d] = halo.width;
    }
  }
  return cost;
}

LocalResults EmitSelectAndScatter(LocalOp& local) {
  if (!local.rule.Exchanges(local.axes, local.mesh())) return EmitAsIs(local);
  Emitter& e = local.e;
  const ir::Type element = ir::Type::Scalar(local.op.operand(0)->type.element);
  const double infinity = std::numeric_limits<double>::infinity();
  ir::Value* loser = e.b().Splat(element, Keeps(*local.op.regions[0]) > 0 ? -infinity : infinity);
  ir::Value* zero = e.b().SplatInt(ir::Type::Scalar(local.op.operand(1)->type.element), 0);
  ir::AttrDict attributes = local.op.attributes;
  std::vector<int64_t> padding = local.op.IntList("padding");
  padding.resize(2 * local.rule.operands[0].size(), 0);
  std::vector<std::optional<Plan>> plans(local.rule.operands[0].size());
  for (size_t d = 0; d < plans.size(); ++d) {
    const int f = local.rule.operands[0][d][0];
    if (!local.rule.factors[f].window || local.axes[f].empty()) continue;
    const int dim = static_cast<int>(d);
    plans[d] = PlanDim(DimOf(local.op, dim), local.parts(f));
    const AxisList& axes = local.axes[f];
    local.operands[0] = EmitHalo(e, plans[d]->operand, {&local.operands[0], 1}, dim, axes, loser);
    local.operands[1] = EmitHalo(e, plans[d]->sources, {&local.operands[1], 1}, dim, axes, zero);
    padding[2 * d] = padding[2 * d + 1] = 0;
  }
  ir::Set(attributes, "padding", std::move(padding));
  local.result_types[0] = local.operands[0]->type;
  LocalResults results = EmitWith(local, std::move(attributes));
  if (!results.ok()) return results;
  for (size_t d = 0; d < plans.size(); ++d) {
    if (!plans[d]) continue;
    const AxisList& axes = local.axes[local.rule.operands[0][d][0]];
    (*results)[0] =
        KeepTile(e, (*results)[0], local.operands[2], *plans[d], static_cast<int>(d), axes);
  }
  return results;
}

}  // namespace shardway::spmd
