// iota: a shard counts from where its tile begins.
#include "shardway/spmd/room.h"

namespace shardway::spmd {

OpRule IotaRule(const ir::Op& op) {
  OpRule rule;
  rule.results.push_back(rule.NewTensor(op.result()->type));
  return rule;
}

LocalResults EmitIota(LocalOp& local) {
  const int64_t dim = local.op.Int("iota_dimension");
  const ir::Type& type = local.result_types[0];
  ir::Builder& b = local.e.b();
  ir::Value* local_iota = b.Iota(type, dim);
  const AxisList& axes = local.result_shardings[0].dims[dim];
  if (axes.empty()) return std::vector<ir::Value*>{local_iota};
  ir::Value* begin = b.Binary(ir::OpKind::kMultiply, local.e.Coordinate(axes),
                              b.SplatInt(ir::Type::Scalar(ElementType::kI32), type.dims[dim]));
  ir::Value* offset = b.BroadcastInDim(b.Convert(begin, type.element), type.dims, {});
  return std::vector<ir::Value*>{b.Binary(ir::OpKind::kAdd, local_iota, offset)};
}

}  // namespace shardway::spmd
