#include "shardway/controller/boundary_proto.h"

namespace shardway::controller {

void ToProto(const compile::Boundary& boundary, wire::BoundaryProto* proto) {
  proto->set_element(static_cast<uint32_t>(boundary.element));
  proto->mutable_global_dims()->Assign(boundary.global_dims.begin(), boundary.global_dims.end());
  proto->mutable_local_dims()->Assign(boundary.local_dims.begin(), boundary.local_dims.end());
  proto->set_op_sharding(boundary.op_sharding);
  proto->set_is_token(boundary.is_token);
  proto->set_donated(boundary.donated);
  proto->set_alias_result(boundary.alias_result);
  proto->set_memory_kind(boundary.memory_kind);
}

}  // namespace shardway::controller
