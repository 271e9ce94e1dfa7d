// select_and_scatter (the gradient of a max pool): a part takes the sources whose windows touch its
// tile, and the operand under those windows. Each source's place is found by a reduce_window of
// places beside values, in which what is not an element of the whole (padding, edges that nobody
// sent) has none and so never is selected, whatever the comparison makes of its value; then the
// sources are scattered there, in their order, and the part keeps its tile.
#include <algorithm>
#include <array>
#include <limits>

#include "shardway/base/status_macros.h"
#include "shardway/spmd/halo.h"
#include "shardway/spmd/part_values.h"
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

struct Plan {
  HaloPlan operand, sources;
  int64_t tile = 0;
  PartNumbers offset;  // of the tile in the operand's window
  // What is real: elements of the operand's window, and sources of the sources'.
  PartNumbers first_element, end_element, first_source, end_source;
  int64_t before = 0;  // rows that no window touches, before and after what is scattered into
  int64_t after = 0;
};

// `whole`: those of the operand and the sources that every device holds whole.
Plan PlanDim(const Dim& dim, int64_t parts, const std::array<bool, 2>& whole) {
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
  for (PartNumbers* numbers :
       {&plan.first_element, &plan.end_element, &plan.first_source, &plan.end_source}) {
    numbers->assign(parts, 0);
  }
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
    plan.first_element[p] = std::clamp<int64_t>(-origin, 0, operand.width);
    plan.end_element[p] = std::clamp<int64_t>(dim.size - origin, 0, operand.width);
    plan.first_source[p] = from - first(p);
    plan.end_source[p] = to - first(p);
    sources.Add(p, 0, dim.sources, from, to - from, from - first(p));
    const int64_t start = from * dim.stride - dim.low;
    operand.Add(p, 0, dim.size, start, (to - 1 - from) * dim.stride + dim.window, start - origin);
  }
  for (auto& offset : plan.offset) {
    if (offset) *offset += plan.before;
  }
  const int64_t tile = whole[0] ? kHeldWhole : plan.tile;
  const int64_t source_tile = whole[1] ? kHeldWhole : sharding::CeilDiv(dim.sources, parts);
  plan.operand = PlanHalo(operand, {&tile, 1});
  plan.sources = PlanHalo(sources, {&source_tile, 1});
  return plan;
}

// Of dimension `d`, whose window is factor `f` of the result.
Plan PlanDim(const ir::Op& op, const OpRule& rule, int d, int f, int64_t parts) {
  return PlanDim(DimOf(op, d), parts, {rule.operands[0][d][0] != f, rule.operands[1][d][0] != f});
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

// `x` where its place along `dim` is in [low, high), -1 elsewhere; x where that is everywhere.
ir::Value* Within(Emitter& e, ir::Value* x, int dim, const AxisList& axes, const PartNumbers& low,
                  const PartNumbers& high) {
  ir::Builder& b = e.b();
  const ir::Type places = ir::Type::Tensor(ElementType::kI32, x->type.dims);
  auto keep = [&](std::string_view direction, const PartNumbers& bound) {
    ir::Value* limit = b.BroadcastInDim(NumberOfPart(e, axes, bound), places.dims, {});
    ir::Value* is_in = b.Compare(direction, b.Iota(places, dim), limit);
    x = b.Select(is_in, x, b.SplatInt(x->type, -1));
  };
  if (SameForAll(low) != 0) keep("GE", low);
  if (SameForAll(high) != places.dims[dim]) keep("LT", high);
  return x;
}

// The user's selection, made of the values alone, between values that have places: one without a
// place (-1) is never selected.
absl::Status BuildSelection(const ir::Region& select, ir::Region* body, ElementType place,
                            Emitter& e) {
  SHARDWAY_RETURN_IF_ERROR(CloneBody(select, body, e.module()));
  const ir::Type type = ir::Type::Scalar(place);
  ir::Value* kept_place = e.module()->AddArgument(body, type);
  ir::Value* next_place = e.module()->AddArgument(body, type);
  // (kept, next, kept's place, next's place), but reduce_window has all that is kept first.
  std::swap(body->arguments[1], body->arguments[2]);
  for (int i = 1; i < 3; ++i) body->arguments[i]->index = i;
  ir::Value* kept = body->arguments[0];
  ir::Value* next = body->arguments[2];
  ir::Value* selects = body->ops.back()->operand(0);
  body->ops.pop_back();
  ir::Builder b(e.module(), body);
  b.set_location(e.b().location());
  ir::Value* zero = b.SplatInt(type, 0);
  ir::Value* keeps =
      b.Binary(ir::OpKind::kOr, b.Compare("LT", next_place, zero),
               b.Binary(ir::OpKind::kAnd, b.Compare("GE", kept_place, zero), selects));
  b.Return({b.Select(keeps, kept, next), b.Select(keeps, kept_place, next_place)});
  return absl::OkStatus();
}

// For every source the place (row-major, in the operand's window) that it goes to, or -1.
absl::StatusOr<ir::Value*> SelectedPlaces(LocalOp& local, ir::Value* places,
                                          std::vector<int64_t> padding) {
  ir::Builder& b = local.e.b();
  const ir::Type value = ir::Type::Scalar(local.operands[0]->type.element);
  const ir::Type place = ir::Type::Scalar(places->type.element);
  ir::AttrDict attributes;
  for (const char* name : {"window_dimensions", "window_strides"}) {
    std::vector<int64_t> list = local.op.IntList(name);
    list.resize(local.operands[0]->type.rank(), 1);
    ir::Set(attributes, name, std::move(list));
  }
  ir::Set(attributes, "padding", std::move(padding));
  const auto& dims = local.operands[1]->type.dims;
  ir::Op* op =
      b.Create(ir::OpKind::kReduceWindow,
               {local.operands[0], places, b.SplatInt(value, 0), b.SplatInt(place, -1)},
               {ir::Type::Tensor(value.element, dims), ir::Type::Tensor(place.element, dims)},
               std::move(attributes));
  SHARDWAY_RETURN_IF_ERROR(BuildSelection(*local.op.regions[0], local.e.module()->AddRegion(op),
                                          place.element, local.e));
  return op->result(1);
}

// `init` everywhere in a tensor like the operand's window, and the sources at their places.
LocalResults ScatterTo(LocalOp& local, ir::Value* places) {
  ir::Builder& b = local.e.b();
  const int64_t count = places->type.num_elements();
  const ir::Type& shape = local.operands[0]->type;
  ir::Value* into = b.BroadcastInDim(local.operands[2], {shape.num_elements()}, {});
  ir::AttrDict attributes;
  ir::Set(attributes, "update_window_dims", std::vector<int64_t>{});
  ir::Set(attributes, "inserted_window_dims", std::vector<int64_t>{0});
  ir::Set(attributes, "scatter_dims_to_operand_dims", std::vector<int64_t>{0});
  ir::Set(attributes, "index_vector_dim", int64_t{1});
  ir::Op* op =
      b.Create(ir::OpKind::kScatter,
               {into, b.Reshape(places, {count, 1}), b.Reshape(local.operands[1], {count})},
               {into->type}, std::move(attributes));
  SHARDWAY_RETURN_IF_ERROR(
      CloneBody(*local.op.regions[1], local.e.module()->AddRegion(op), local.e.module()));
  return std::vector<ir::Value*>{b.Reshape(op->result(), shape.dims)};
}

}  // namespace

OpRule SelectAndScatterRule(const ir::Op& op) {
  OpRule rule;
  const bool can_split =
      op.operand(0)->type.num_elements() > 0 && op.operand(1)->type.num_elements() > 0;
  TensorFactors operand(op.operand(0)->type.rank());
  TensorFactors sources(operand.size());
  for (int d = 0; d < op.operand(0)->type.rank(); ++d) {
    const Dim dim = DimOf(op, d);
    if (dim.moves() && !can_split) {
      operand[d] = {rule.AddFactor(dim.size, Kind::kReplicated)};
      sources[d] = {rule.AddFactor(dim.sources, Kind::kReplicated)};
    } else {
      operand[d] = sources[d] = {dim.moves() ? rule.AddWindow(dim.size) : rule.AddFactor(dim.size)};
      rule.factors.back().cuts = dim.moves();
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
    const int f = rule.results[0][d][0];
    if (!rule.factors[f].window || axes[f].empty()) continue;
    const Plan plan = PlanDim(op, rule, d, f, mesh.SizeOf(axes[f]));
    for (int i = 0; i < 2; ++i) {
      const HaloPlan& halo = i == 0 ? plan.operand : plan.sources;
      local[i].dims[d] = 1;
      cost += CostOver(halo.traffic(static_cast<double>(local[i].num_bytes())), mesh, axes[f]);
      local[i].dims[d] = halo.width;
    }
  }
  return cost;
}

LocalResults EmitSelectAndScatter(LocalOp& local) {
  if (!local.rule.Exchanges(local.axes, local.mesh())) return EmitAsIs(local);
  Emitter& e = local.e;
  const int rank = local.op.operand(0)->type.rank();
  std::vector<int64_t> padding = local.op.IntList("padding");
  padding.resize(2 * rank, 0);
  std::vector<std::optional<Plan>> plans(rank);
  auto axes_of = [&](int d) -> const AxisList& { return local.axes[local.rule.results[0][d][0]]; };
  for (int d = 0; d < rank; ++d) {
    const int f = local.rule.results[0][d][0];
    if (!local.rule.factors[f].window || axes_of(d).empty()) continue;
    plans[d] = PlanDim(local.op, local.rule, d, f, local.parts(f));
    const HaloPlan* halos[] = {&plans[d]->operand, &plans[d]->sources};
    for (int i = 0; i < 2; ++i) {
      local.operands[i] =
          EmitHalo(e, *halos[i], {&local.operands[i], 1}, d, axes_of(d), /*fill=*/nullptr);
    }
    padding[2 * d] = padding[2 * d + 1] = 0;
  }
  const ir::Type& window = local.operands[0]->type;
  const bool wide = window.num_elements() > std::numeric_limits<int32_t>::max();
  const ElementType place = wide ? ElementType::kI64 : ElementType::kI32;
  ir::Value* places =
      e.b().Reshape(e.b().Iota(ir::Type::Tensor(place, {window.num_elements()}), 0), window.dims);
  for (int d = 0; d < rank; ++d) {
    if (!plans[d]) continue;
    places = Within(e, places, d, axes_of(d), plans[d]->first_element, plans[d]->end_element);
  }
  SHARDWAY_ASSIGN_OR_RETURN(places, SelectedPlaces(local, places, std::move(padding)));
  for (int d = 0; d < rank; ++d) {
    if (!plans[d]) continue;
    places = Within(e, places, d, axes_of(d), plans[d]->first_source, plans[d]->end_source);
  }
  SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results, ScatterTo(local, places));
  for (int d = 0; d < rank; ++d) {
    if (plans[d]) results[0] = KeepTile(e, results[0], local.operands[2], *plans[d], d, axes_of(d));
  }
  return results;
}

}  // namespace shardway::spmd
