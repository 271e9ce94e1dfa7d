#include "shardway/compile/unreduced.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/spmd/emitter.h"

namespace shardway::compile {
namespace {

std::vector<int64_t> WithoutFirst(const ir::Value* v) {
  return {v->type.dims.begin() + 1, v->type.dims.end()};
}

}  // namespace

absl::StatusOr<std::vector<ir::SdyAxisRef>> ManualUnreduced(
    const ir::SdySharding& sharding, const std::vector<std::string>& manual) {
  std::vector<ir::SdyAxisRef> axes;
  for (const ir::SdyAxisRef& axis : sharding.unreduced) {
    if (std::find(manual.begin(), manual.end(), axis.name) != manual.end()) axes.push_back(axis);
  }
  if (!axes.empty() && sharding.reduction != 0) {
    return absl::UnimplementedError(
        absl::StrCat("a value is unreduced over the axis \"", axes[0].name,
                     "\" by another reduction than a sum: reduce it inside the region"));
  }
  return axes;
}

int64_t NumParts(const ir::Module& module, const ir::SdySharding& sharding,
                 const std::vector<ir::SdyAxisRef>& axes) {
  const ir::SdyMesh* mesh = sharding.mesh ? &*sharding.mesh : module.FindMesh(sharding.mesh_name);
  int64_t parts = 1;
  for (const ir::SdyAxisRef& axis : axes) {
    if (axis.sub_axis) {
      parts *= axis.sub_axis->second;
      continue;
    }
    for (const ir::SdyMesh::Axis& candidate : mesh->axes) {
      if (candidate.name == axis.name) parts *= candidate.size;
    }
  }
  return parts;
}

ir::SdySharding OverParts(const ir::SdySharding& sharding,
                          const std::vector<ir::SdyAxisRef>& axes) {
  ir::SdySharding over = sharding;
  over.dims.clear();
  over.dims.emplace_back().axes = axes;
  over.replicated.clear();
  over.unreduced.clear();
  return over;
}

ir::SdySharding WithParts(const ir::SdySharding& sharding,
                          const std::vector<ir::SdyAxisRef>& axes) {
  ir::SdySharding with = OverParts(sharding, axes);
  with.dims.insert(with.dims.end(), sharding.dims.begin(), sharding.dims.end());
  return with;
}

ir::Value* FirstOf(ir::Builder& b, int64_t parts) {
  const ir::Type type = ir::Type::Tensor(ElementType::kI32, {parts});
  return b.Compare("EQ", b.Iota(type, 0), b.SplatInt(type, 0));
}

ir::Value* OrZeros(ir::Builder& b, ir::Value* value, ir::Value* first) {
  ir::Value* here = b.BroadcastInDim(b.Reshape(first, {}), value->type.dims, {});
  return b.Select(here, value, b.Splat(value->type, 0));
}

ir::Value* SumOfParts(ir::Builder& b, ir::Value* parts) {
  const ir::Type scalar = ir::Type::Scalar(parts->type.element);
  const ir::Type sum = ir::Type::Tensor(parts->type.element, WithoutFirst(parts));
  ir::Value* zero = b.Splat(scalar, 0);
  ir::AttrDict attributes;
  ir::Set(attributes, "dimensions", std::vector<int64_t>{0});
  ir::Op* op = b.Create(ir::OpKind::kReduce, {parts, zero}, {sum}, std::move(attributes));
  spmd::BuildReducer(b.module(), b.module()->AddRegion(op), collective::Reduction::kSum,
                     parts->type.element);
  return op->result();
}

}  // namespace shardway::compile
