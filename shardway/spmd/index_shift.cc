#include "shardway/spmd/index_shift.h"

#include <algorithm>

namespace shardway::spmd {

ir::Value* TileOffsets(Emitter& e, ir::Value* indices, int64_t index_vector_dim,
                       const std::vector<int64_t>& map, const std::vector<int64_t>& single,
                       const Sharding& sharding, const ir::Type& local_type) {
  ir::Builder& b = e.b();
  const ir::Type i32 = ir::Type::Scalar(ElementType::kI32);
  const int64_t one[] = {1};
  std::vector<ir::Value*> components;
  bool any = false;
  for (int64_t d : map) {
    const bool split =
        std::find(single.begin(), single.end(), d) != single.end() && !sharding.dims[d].empty();
    any |= split;
    ir::Value* offset = split ? b.Binary(ir::OpKind::kMultiply, e.Coordinate(sharding.dims[d]),
                                         b.SplatInt(i32, local_type.dims[d]))
                              : b.SplatInt(i32, 0);
    components.push_back(b.Reshape(b.Convert(offset, indices->type.element), one));
  }
  if (!any) return nullptr;
  ir::Value* vector = components.size() == 1 ? components[0] : b.Concatenate(components, 0);
  if (index_vector_dim >= indices->type.rank()) {
    return b.BroadcastInDim(b.Reshape(vector, {}), indices->type.dims, {});
  }
  const int64_t dims[] = {index_vector_dim};
  return b.BroadcastInDim(vector, indices->type.dims, dims);
}

}  // namespace shardway::spmd
