#include "shardway/spmd/index_shift.h"

#include <algorithm>

namespace shardway::spmd {
namespace {

// A vector with one element for each component, broadcast to the shape of the indices.
ir::Value* Spread(ir::Builder& b, const GatherDims& dims, const ir::Type& indices,
                  ir::Value* vector) {
  if (dims.index_vector_dim >= indices.rank()) {
    return b.BroadcastInDim(b.Reshape(vector, {}), indices.dims, {});
  }
  const int64_t to[] = {dims.index_vector_dim};
  return b.BroadcastInDim(vector, indices.dims, to);
}

}  // namespace

ir::Value* WideIndices(ir::Builder& b, ir::Value* indices) {
  const ElementType element = indices->type.element;
  if (ElementBits(element) < 32 || element == ElementType::kUI32) {
    return b.Convert(indices, ElementType::kI32);
  }
  return element == ElementType::kUI64 ? b.Convert(indices, ElementType::kI64) : indices;
}

ir::Value* PerComponent(ir::Builder& b, const GatherDims& dims, const ir::Type& indices,
                        const std::vector<int64_t>& values) {
  return Spread(b, dims, indices, b.IntVector(indices.element, values));
}

bool Addressed(const GatherDims& dims, const Sharding& sharding, int64_t d) {
  return !sharding.dims[d].empty() &&
         std::find(dims.index_map.begin(), dims.index_map.end(), d) != dims.index_map.end();
}

ir::Value* ToLocal(Emitter& e, const GatherDims& dims, ir::Value* indices, const Sharding& sharding,
                   const ir::Type& tile, const std::vector<int64_t>& margin) {
  ir::Builder& b = e.b();
  const ir::Type i32 = ir::Type::Scalar(ElementType::kI32);
  const int64_t one[] = {1};
  std::vector<ir::Value*> components;
  bool any = false;
  for (int64_t d : dims.index_map) {
    ir::Value* offset = b.SplatInt(i32, 0);
    if (Addressed(dims, sharding, d)) {
      any = true;
      offset = b.Binary(ir::OpKind::kMultiply, e.Coordinate(sharding.dims[d]),
                        b.SplatInt(i32, tile.dims[d]));
      if (margin[d] != 0)
        offset = b.Binary(ir::OpKind::kSubtract, offset, b.SplatInt(i32, margin[d]));
    }
    components.push_back(b.Reshape(b.Convert(offset, indices->type.element), one));
  }
  if (!any) return indices;
  ir::Value* vector = components.size() == 1 ? components[0] : b.Concatenate(components, 0);
  return b.Binary(ir::OpKind::kSubtract, indices, Spread(b, dims, indices->type, vector));
}

bool IsOneIndex(const GatherDims& dims, const ir::Type& indices) {
  return std::all_of(dims.scatter_indices.begin(), dims.scatter_indices.end(),
                     [&](int64_t d) { return indices.dims[d] == 1; });
}

ir::Value* ApartForOneIndex(ir::Builder& b, const GatherDims& dims, const ir::Type& indices,
                            ir::Value* whole) {
  if (!IsOneIndex(dims, indices)) return whole;
  return b.Barrier(whole);
}

}  // namespace shardway::spmd
