#include "shardway/sharding/sdy_sharding.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/ir/fault_names.h"

namespace shardway::sharding {

absl::StatusOr<const ir::SdyMesh*> SdyMeshes::FindMesh(const ir::SdySharding& sharding) const {
  if (sharding.mesh) return &*sharding.mesh;
  const ir::SdyMesh* mesh = module_->FindMesh(sharding.mesh_name);
  if (mesh == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the sharding names the mesh @", sharding.mesh_name, ", which the program lacks"));
  }
  return mesh;
}

// A mesh is over all devices of the program, or names one of them.
absl::Status SdyMeshes::CheckSize(const ir::SdyMesh& mesh) const {
  if (mesh.axes.empty()) return absl::OkStatus();
  int64_t devices = 1;
  for (const auto& axis : mesh.axes) {
    if (axis.size < 1 || axis.size > mesh_->num_devices() / devices) {
      devices = 0;
      break;
    }
    devices *= axis.size;
  }
  if (devices == mesh_->num_devices()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the mesh ", ir::NameOfAxes(mesh),
                                                 " does not have the program's ",
                                                 mesh_->num_devices(), " devices"));
}

absl::StatusOr<const AxisPlacement*> SdyMeshes::Place(const ir::SdyMesh& mesh) const {
  auto at = placements_.find(&mesh);
  if (at == placements_.end()) {
    SHARDWAY_ASSIGN_OR_RETURN(AxisPlacement placement, PlaceAxes(mesh, *mesh_));
    at = placements_.emplace(&mesh, std::move(placement)).first;
  }
  return &at->second;
}

absl::StatusOr<AxisList> SdyMeshes::Resolve(const ir::SdyMesh& mesh, const ir::SdyAxisRef& axis,
                                            const AxisPlacement& placement) const {
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    if (mesh.axes[i].name != axis.name) continue;
    const AxisList& atoms = placement.axes[i];
    if (!axis.sub_axis) return atoms;
    const auto [pre, size] = *axis.sub_axis;
    int64_t before = 1;
    AxisList part;
    for (uint8_t a : atoms) {
      if (before >= pre && before < pre * size) part.push_back(a);
      before *= mesh_->size(a);
    }
    if (mesh_->SizeOf(part) != size) {
      return absl::InvalidArgumentError(absl::StrCat("the sub-axis ", ir::NameOfAxis(axis),
                                                     " does not divide its axis: its mesh is ",
                                                     ir::NameOfAxes(mesh)));
    }
    return part;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the sharding names the axis ", ir::NameOfAxis(axis),
                   ", which its mesh lacks: that is ", ir::NameOfAxes(mesh)));
}

absl::StatusOr<Annotation> SdyMeshes::ToAnnotation(const ir::SdySharding& sharding,
                                                   int rank) const {
  SHARDWAY_ASSIGN_OR_RETURN(const ir::SdyMesh* mesh, FindMesh(sharding));
  Annotation result;
  result.sharding = Sharding::Replicated(rank);
  if (mesh_->num_devices() == 1 && !mesh->axes.empty()) return result;
  SHARDWAY_RETURN_IF_ERROR(CheckSize(*mesh));
  if (mesh->axes.empty()) {
    result.maximal = !mesh->device_ids.empty();
    for (int64_t device : mesh->device_ids) {
      if (device >= 0 && device < mesh_->num_devices()) continue;
      return absl::InvalidArgumentError(absl::StrCat("the sharding puts all on device ", device,
                                                     " of a program for ", mesh_->num_devices(),
                                                     " devices"));
    }
    for (int d = 0; !result.maximal && d < rank && d < 32; ++d) {
      const bool open = d < static_cast<int>(sharding.dims.size()) && !sharding.dims[d].closed;
      if (open) result.open |= uint32_t{1} << d;
    }
    return result;
  }
  if (static_cast<int>(sharding.dims.size()) != rank) {
    return absl::InvalidArgumentError(absl::StrCat("a sharding for ", sharding.dims.size(),
                                                   " dimensions on a value of rank ", rank));
  }
  SHARDWAY_ASSIGN_OR_RETURN(const AxisPlacement* placement, Place(*mesh));
  AxisSet used = 0;
  auto use = [&](const ir::SdyAxisRef& axis) -> absl::StatusOr<AxisList> {
    SHARDWAY_ASSIGN_OR_RETURN(AxisList atoms, Resolve(*mesh, axis, *placement));
    const AxisSet set = sharding::ToSet(atoms);
    if ((used & set) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the sharding uses the axis \"", axis.name, "\" twice"));
    }
    used |= set;
    return atoms;
  };
  for (int d = 0; d < rank; ++d) {
    const ir::SdyDimSharding& dim = sharding.dims[d];
    for (const ir::SdyAxisRef& axis : dim.axes) {
      SHARDWAY_ASSIGN_OR_RETURN(AxisList atoms, use(axis));
      result.sharding.dims[d].insert(result.sharding.dims[d].end(), atoms.begin(), atoms.end());
    }
    if (!dim.closed && d < 32) result.open |= uint32_t{1} << d;
    if (dim.priority.value_or(0) > 0) {
      result.priorities.resize(rank, 0);
      result.priorities[d] = *dim.priority;
    }
  }
  for (const ir::SdyAxisRef& axis : sharding.replicated) {
    SHARDWAY_ASSIGN_OR_RETURN(AxisList atoms, use(axis));
    result.forbidden |= sharding::ToSet(atoms);
  }
  for (const ir::SdyAxisRef& axis : sharding.unreduced) {
    SHARDWAY_ASSIGN_OR_RETURN(AxisList atoms, use(axis));
    result.forbidden |= sharding::ToSet(atoms);
    if (sharding.is_sum()) result.unreduced |= sharding::ToSet(atoms);
  }
  if (!result.sharding.replicated() || result.unreduced != 0) result.order = placement->order;
  return result;
}

absl::StatusOr<AxisSet> SdyMeshes::ToSet(const ir::SdySharding& sharding,
                                         const std::vector<std::string>& axes) const {
  SHARDWAY_ASSIGN_OR_RETURN(const ir::SdyMesh* mesh, FindMesh(sharding));
  SHARDWAY_RETURN_IF_ERROR(CheckSize(*mesh));
  SHARDWAY_ASSIGN_OR_RETURN(const AxisPlacement* placement, Place(*mesh));
  if (placement->order != nullptr && !axes.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("a manual region over the axis \"", axes.front(),
                     "\" of a mesh whose order of devices is no transposition of that of the "
                     "program's first mesh; give both meshes the same devices in the same order"));
  }
  AxisSet set = 0;
  for (const std::string& name : axes) {
    SHARDWAY_ASSIGN_OR_RETURN(AxisList atoms, Resolve(*mesh, {name, std::nullopt}, *placement));
    set |= sharding::ToSet(atoms);
  }
  return set;
}

}  // namespace shardway::sharding
