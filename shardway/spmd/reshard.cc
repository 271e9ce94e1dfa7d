#include "shardway/spmd/reshard.h"

#include <algorithm>

#include "shardway/spmd/thin_gather.h"

namespace shardway::spmd {
namespace {

using sharding::CeilDiv;

// Digits of a device over some atoms, as one row-major number, and back.
int64_t Index(const Mesh& mesh, int64_t device, const AxisList& axes) {
  int64_t index = 0;
  for (uint8_t a : axes) index = index * mesh.size(a) + device / mesh.stride(a) % mesh.size(a);
  return index;
}
int64_t Place(const Mesh& mesh, int64_t index, const AxisList& axes) {
  int64_t device = 0;
  for (size_t i = axes.size(); i-- > 0;) {
    device += index % mesh.size(axes[i]) * mesh.stride(axes[i]);
    index /= mesh.size(axes[i]);
  }
  return device;
}

// Who holds the tile that each device wants: pairs of places along the atoms of `moved`, which are
// all whose digits may change. Atoms that split nothing keep their digits as far as they can, so
// that what is already in place stays.
Emitter::Pairs PermutePairs(const Mesh& mesh, const Sharding& from, const Sharding& to,
                            AxisSet manual, AxisList& moved) {
  const AxisSet free_from = mesh.all() & ~manual & ~from.used();
  const AxisSet free_to = mesh.all() & ~manual & ~to.used();
  AxisSet changes = free_from ^ free_to;
  if (changes != 0) changes |= free_from | free_to;
  for (int d = 0; d < from.rank(); ++d) {
    if (from.dims[d] == to.dims[d]) continue;
    changes |= sharding::ToSet(from.dims[d]) | sharding::ToSet(to.dims[d]);
  }
  moved = mesh.ToList(changes);
  Emitter::Pairs pairs;
  for (int64_t place = 0; place < mesh.SizeOf(moved); ++place) {
    const int64_t target = Place(mesh, place, moved);
    int64_t source = Place(mesh, Index(mesh, target, mesh.ToList(free_to)), mesh.ToList(free_from));
    for (int d = 0; d < from.rank(); ++d) {
      source += Place(mesh, Index(mesh, target, to.dims[d]), from.dims[d]);
    }
    pairs.emplace_back(Index(mesh, source, moved), place);
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

// Drops the padding that joined tiles end in.
ir::Value* CutTo(Emitter& e, ir::Value* x, const ReshardStep& step) {
  if (x->type.dims[step.dim] <= step.shard[step.dim]) return x;
  std::vector<int64_t> starts(x->type.rank());
  std::vector<int64_t> limits(x->type.dims.begin(), x->type.dims.end());
  limits[step.dim] = step.shard[step.dim];
  return e.b().Slice(x, starts, limits);
}

}  // namespace

ir::Value* PadDim(Emitter& e, ir::Value* x, int dim, int64_t size, int64_t fill) {
  if (x->type.dims[dim] >= size) return x;
  std::vector<int64_t> low(x->type.rank()), high(x->type.rank());
  high[dim] = size - x->type.dims[dim];
  return e.b().Pad(x, e.b().SplatInt(ir::Type::Scalar(x->type.element), fill), low, high);
}

namespace {

// XLA's simplifier forgets a factor: of one element of a vector of integers, itself sliced of
// another, that was multiplied by the same for all. A product is sliced as it stands.
ir::Value* ApartFromFactor(ir::Builder& b, ir::Value* x, int64_t tile) {
  const bool forgets = tile == 1 && x->type.rank() == 1 && IsInteger(x->type.element) &&
                       x->def != nullptr && x->def->kind == ir::OpKind::kMultiply;
  if (!forgets) return x;
  return b.Barrier(x);
}

}  // namespace

ir::Value* SliceTile(Emitter& e, ir::Value* x, int dim, int64_t tile, const AxisList& axes) {
  ir::Builder& b = e.b();
  const int64_t total = tile * e.mesh().SizeOf(axes);
  x = PadDim(e, x, dim, tile);
  const int64_t size = x->type.dims[dim];
  if (total == tile && size == tile) return x;
  x = ApartFromFactor(b, x, tile);
  const ir::Type i32 = ir::Type::Scalar(ElementType::kI32);
  ir::Value* zero = b.SplatInt(i32, 0);
  ir::Value* begin = b.Binary(ir::OpKind::kMultiply, e.Coordinate(axes), b.SplatInt(i32, tile));
  std::vector<int64_t> sizes(x->type.dims.begin(), x->type.dims.end());
  sizes[dim] = tile;
  std::vector<ir::Value*> starts(x->type.rank(), zero);
  // Clamped here, not by the slice: XLA adds the starts of a slice of a slice, which is right only
  // within bounds.
  ir::Value* last = total > size ? b.SplatInt(i32, size - tile) : nullptr;
  starts[dim] = last == nullptr ? begin : b.Binary(ir::OpKind::kMinimum, begin, last);
  ir::Value* piece = b.DynamicSlice(x, starts, sizes);
  const int64_t real = size % tile;  // elements of the only tile that is partly beyond the end
  if (total <= size || real == 0) return piece;
  // Its slice begins earlier, to end with the end. The padding is made on a tile, not on the whole.
  std::vector<int64_t> from(x->type.rank());
  from[dim] = tile - real;
  ir::Value* moved = PadDim(e, b.Slice(piece, from, sizes), dim, tile);
  ir::Value* beyond = b.Compare("GT", begin, last);
  return b.Select(b.BroadcastInDim(beyond, piece->type.dims, {}), moved, piece);
}

ir::Value* EmitReshard(Emitter& e, ir::Value* local, const ir::Type& type, const Sharding& from,
                       const Sharding& to, AxisSet manual) {
  if (from == to) return local;
  const Mesh& mesh = e.mesh();
  if (type.num_elements() == 0) return e.b().SplatInt(sharding::LocalType(type, to, mesh), 0);
  const Sharding* before = &from;
  const ReshardPlan plan = PlanReshard(type, from, to, mesh);
  for (const ReshardStep& step : plan.steps) {
    const int64_t n = mesh.SizeOf(step.axes);
    switch (step.kind) {
      case ReshardStep::Kind::kSlice:
        local = SliceTile(e, local, step.dim, step.shard[step.dim], step.axes);
        break;
      case ReshardStep::Kind::kAllGather:
        local = IsThin(type.element, local->type.dims[step.dim], n, step.shard[step.dim])
                    ? ThinGather(e, local, step.dim, step.shard[step.dim], step.axes)
                    : CutTo(e, e.AllGather(local, step.dim, step.axes), step);
        break;
      case ReshardStep::Kind::kAllToAll:
        local = PadDim(e, local, step.to_dim, step.shard[step.to_dim] * n);
        local = CutTo(e, e.AllToAll(local, step.to_dim, step.dim, step.axes), step);
        break;
      case ReshardStep::Kind::kPermute: {
        AxisList moved;
        Emitter::Pairs pairs = PermutePairs(mesh, *before, step.after, manual, moved);
        local = e.Permute(local, moved, std::move(pairs));
        break;
      }
      case ReshardStep::Kind::kRetile: {
        const int64_t tiles[] = {local->type.dims[step.dim]};
        const HaloPlan halo =
            PlanHalo(RetileNeeds(type.dims[step.dim], n, step.shard[step.dim]), tiles);
        local = EmitHalo(e, halo, {&local, 1}, step.dim, step.axes, nullptr);
        break;
      }
    }
    before = &step.after;
  }
  return local;
}

}  // namespace shardway::spmd
