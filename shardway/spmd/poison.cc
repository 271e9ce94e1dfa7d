#include "shardway/spmd/poison.h"

#include <limits>

#include "shardway/spmd/room.h"

namespace shardway::spmd {

ir::Value* PoisonPadding(Emitter& e, ir::Value* shard, const ir::Type& type,
                         const Sharding& sharding) {
  if (!type.is_tensor()) return shard;
  for (int d = 0; d < sharding.rank(); ++d) {
    if (type.dims[d] % e.mesh().SizeOf(sharding.dims[d]) == 0) continue;
    const ir::Type scalar = ir::Type::Scalar(type.element);
    const bool is_int = IsInteger(type.element) || type.element == ElementType::kI1;
    ir::Value* fill = is_int ? e.b().SplatInt(scalar, 113)
                             : e.b().Splat(scalar, std::numeric_limits<double>::quiet_NaN());
    shard = MaskPadding(e, shard, type, sharding, d, fill);
  }
  return shard;
}

}  // namespace shardway::spmd
