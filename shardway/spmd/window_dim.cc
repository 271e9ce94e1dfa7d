#include "shardway/spmd/window_dim.h"

#include <algorithm>

#include "shardway/spmd/part_values.h"

namespace shardway::spmd {
LocalWindow PlanWindow(const WindowDim& dim, int64_t parts, bool whole) {
  const int64_t tile = sharding::CeilDiv(dim.result, parts);
  LocalWindow local;
  local.extent = (tile - 1) * dim.stride + dim.reach();
  HaloNeeds needs;
  needs.parts.resize(parts);
  bool alike = true;
  for (int64_t part = 0; part < parts; ++part) {
    // Everything from here to `extent` further, holes counted, is what the tile reaches over.
    const int64_t origin = part * tile * dim.stride - dim.low;
    const int64_t first = CeilDiv(origin, dim.base_dilation);
    local.phases.push_back(first * dim.base_dilation - origin);
    const int64_t real = std::min(tile, dim.result - part * tile);  // results, not padding
    if (real <= 0) continue;
    needs.width = std::max(needs.width, CeilDiv(origin + local.extent, dim.base_dilation) - first);
    alike = alike && local.phases.back() == local.phases.front();
    const int64_t end = CeilDiv(origin + (real - 1) * dim.stride + dim.reach(), dim.base_dilation);
    needs.Add(part, 0, dim.size, first, end - first, 0);
  }
  needs.width = std::max<int64_t>(needs.width, 1);
  if (alike) {
    local.low = local.phases.front();
    local.high = local.extent - local.low - ((needs.width - 1) * dim.base_dilation + 1);
    local.phases.clear();
  }
  const int64_t tiles[] = {whole ? kHeldWhole : sharding::CeilDiv(dim.size, parts)};
  local.halo = PlanHalo(needs, tiles);
  return local;
}

ir::Value* DilateWindow(Emitter& e, const LocalWindow& local, int64_t base_dilation, ir::Value* x,
                        int dim, const AxisList& axes, ir::Value* fill) {
  if (local.phases.empty()) return x;
  ir::Builder& b = e.b();
  const int rank = x->type.rank();
  const int64_t before = base_dilation - 1;
  const int64_t written = (x->type.dims[dim] - 1) * base_dilation + 1;
  std::vector<int64_t> low(rank), high(rank), interior(rank);
  low[dim] = before;
  high[dim] = std::max<int64_t>(0, local.extent - written);
  interior[dim] = base_dilation - 1;
  ir::Type type = x->type;
  type.dims[dim] = low[dim] + written + high[dim];
  ir::AttrDict attributes;
  ir::Set(attributes, "edge_padding_low", low);
  ir::Set(attributes, "edge_padding_high", high);
  ir::Set(attributes, "interior_padding", interior);
  x = b.Create(ir::OpKind::kPad, {x, fill}, {type}, std::move(attributes))->result();
  PartNumbers starts;
  for (int64_t phase : local.phases) starts.push_back(before - phase);
  std::vector<ir::Value*> at(rank, b.SplatInt(ir::Type::Scalar(ElementType::kI32), 0));
  at[dim] = NumberOfPart(e, axes, starts);
  type.dims[dim] = local.extent;
  return b.DynamicSlice(x, at, type.dims);
}

}  // namespace shardway::spmd
