#include "shardway/sharding/mesh_split.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shardway::sharding {

absl::StatusOr<ir::Value*> MeshSplit(ir::Builder& b, ir::Value* x, std::string_view mesh,
                                     absl::Span<const std::vector<std::string>> dims) {
  const auto fault = [&](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat("mesh_split of a ", x->type.ToString(), ": ", what...));
  };
  const std::string name(mesh);
  const ir::SdyMesh* axes = b.module()->FindMesh(mesh);
  if (axes == nullptr) return fault("the module has no mesh @", name);
  if (!x->type.is_tensor() || static_cast<int>(dims.size()) != x->type.rank()) {
    return fault(dims.size(), " entries for ", x->type.rank(), " dimensions");
  }
  ir::SdySharding sharding;
  sharding.mesh_name = name;
  absl::flat_hash_set<std::string> used;
  for (const std::vector<std::string>& dim : dims) {
    ir::SdyDimSharding& split = sharding.dims.emplace_back();
    for (const std::string& axis : dim) {
      const bool known = std::any_of(axes->axes.begin(), axes->axes.end(),
                                     [&](const auto& a) { return a.name == axis; });
      if (!known) return fault("the mesh @", name, " has no axis \"", axis, "\"");
      if (!used.insert(axis).second) return fault("the axis \"", axis, "\" is used twice");
      split.axes.push_back({axis, {}});
    }
  }
  ir::AttrDict attributes;
  ir::Set(attributes, "sharding", std::move(sharding));
  return b
      .Create(ir::OpKind::kSdyShardingConstraint, {&x, 1}, {&x->type, 1}, std::move(attributes))
      ->result();
}

}  // namespace shardway::sharding
