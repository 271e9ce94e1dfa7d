#include "shardway/spmd/thin_gather.h"

#include "shardway/spmd/pack.h"
#include "shardway/spmd/reshard.h"

namespace shardway::spmd {

using sharding::CeilDiv;

bool IsThin(ElementType element, int64_t tile, int64_t parts, int64_t rows) {
  if (tile == 0 || rows == 0 || 2 * CeilDiv(rows, tile) >= parts) return false;
  return element == ElementType::kI1 || IsComplex(element) ||
         UnsignedOf(ElementBits(element)) != ElementType::kInvalid;
}

namespace {

// Complex numbers have no bits of their own: their halves side by side.
ir::Value* GatherHalves(Emitter& e, ir::Value* tile, int dim, int64_t rows, const AxisList& axes) {
  ir::Builder& b = e.b();
  const ElementType real = RealOf(tile->type.element);
  ir::Value* halves[] = {b.Real(tile), b.Imag(tile)};
  ir::Value* all = ThinGather(e, Pack(b, halves), dim + 1, rows, axes);
  const std::vector<ElementType> elements = {real, real};
  const std::vector<ir::Value*> gathered = Unpack(b, all, 0, elements);
  return b.Complex(gathered[0], gathered[1]);
}

}  // namespace

ir::Value* ThinGather(Emitter& e, ir::Value* tile, int dim, int64_t rows, const AxisList& axes) {
  ir::Builder& b = e.b();
  const ElementType element = tile->type.element;
  if (IsComplex(element)) return GatherHalves(e, tile, dim, rows, axes);
  const bool boolean = element == ElementType::kI1;
  const ElementType bits = boolean ? element : UnsignedOf(ElementBits(element));
  tile = Bitcast(b, tile, bits);
  const int64_t size = tile->type.dims[dim];
  ir::Type all = tile->type;
  all.dims[dim] = CeilDiv(rows, size) * size;
  const ir::Type i32 = ir::Type::Scalar(ElementType::kI32);
  ir::Value* begin = b.Binary(ir::OpKind::kMultiply, e.Coordinate(axes), b.SplatInt(i32, size));
  ir::Value* has_rows = b.Compare("LT", begin, b.SplatInt(i32, all.dims[dim]));
  ir::Value* mine =
      b.Select(b.BroadcastInDim(has_rows, tile->type.dims, {}), tile, b.SplatInt(tile->type, 0));
  std::vector<ir::Value*> starts(all.rank(), b.SplatInt(i32, 0));
  // A part without rows adds zeros, wherever the update clamps its start to.
  starts[dim] = begin;
  ir::Value* placed = b.DynamicUpdateSlice(b.SplatInt(all, 0), mine, starts);
  ir::Value* sum =
      e.AllReduce(placed, boolean ? collective::Reduction::kOr : collective::Reduction::kSum, axes);
  if (all.dims[dim] > rows) {
    const std::vector<int64_t> from(all.rank());
    std::vector<int64_t> to(all.dims.begin(), all.dims.end());
    to[dim] = rows;
    sum = b.Slice(sum, from, to);
  }
  return Bitcast(b, sum, element);
}

}  // namespace shardway::spmd
