#include "shardway/spmd/dynamic_window.h"

#include <algorithm>

namespace shardway::spmd {

using ir::OpKind;

ir::Value* ClampedStart(Emitter& e, ir::Value* start, int64_t whole, int64_t size) {
  ir::Builder& b = e.b();
  // The bound must be a value of the type that is clamped.
  if (ElementBits(start->type.element) < 32) start = b.Convert(start, ElementType::kI32);
  ir::Value* clamped =
      b.Clamp(b.SplatInt(start->type, 0), start, b.SplatInt(start->type, whole - size));
  return b.Convert(clamped, ElementType::kI32);
}

ir::Value* LocalStart(Emitter& e, ir::Value* clamped, int64_t tile, const AxisList& axes) {
  ir::Builder& b = e.b();
  ir::Value* offset =
      b.Binary(OpKind::kMultiply, e.Coordinate(axes), b.SplatInt(clamped->type, tile));
  return b.Binary(OpKind::kSubtract, clamped, offset);
}

ir::Value* WindowOrFill(ir::Builder& b, ir::Value* x, int dim, ir::Value* start, int64_t size,
                        ir::Value* fill) {
  const ir::Type i32 = start->type;
  const int rank = x->type.rank();
  std::vector<ir::Value*> starts(rank, b.SplatInt(i32, 0));
  std::vector<int64_t> sizes(x->type.dims.begin(), x->type.dims.end());
  const int64_t tile = sizes[dim];
  const int64_t near = std::min(size, tile);
  if (near < tile) {  // the part of x nearest to the window
    starts[dim] = b.Clamp(b.SplatInt(i32, 0), start, b.SplatInt(i32, tile - near));
    sizes[dim] = near;
    x = b.DynamicSlice(x, starts, sizes);
    start = b.Binary(OpKind::kSubtract, start, starts[dim]);
  }
  std::vector<int64_t> pad(rank);
  pad[dim] = size;
  x = b.Pad(x, fill, pad, pad);
  starts[dim] = b.Clamp(b.SplatInt(i32, 0), b.Binary(OpKind::kAdd, start, b.SplatInt(i32, size)),
                        b.SplatInt(i32, near + size));
  sizes[dim] = size;
  return b.DynamicSlice(x, starts, sizes);
}

ir::Value* NeutralOfSum(ir::Builder& b, const ir::Type& type) {
  if (IsInteger(type.element) || type.element == ElementType::kI1) return b.SplatInt(type, 0);
  return b.Splat(type, -0.0);
}

}  // namespace shardway::spmd
