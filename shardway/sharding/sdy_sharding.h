// Shardy's annotations, by axis name, as annotations on the concrete mesh.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "shardway/ir/module.h"
#include "shardway/sharding/sharding.h"

namespace shardway::sharding {

// The named axes of a module's meshes on one concrete mesh. Keeps a reference to `module`'s meshes.
class SdyMeshes {
 public:
  // `mesh` must have been made with the strides of these meshes (MeshStrides).
  SdyMeshes(const ir::Module* module, const Mesh* mesh) : module_(module), mesh_(mesh) {}

  // INVALID_ARGUMENT naming the mesh or the axis for an unknown mesh, an unknown axis, an axis used
  // twice, a sub-axis that does not divide, a rank that does not fit, or a mesh of another number
  // of devices; UNIMPLEMENTED for an order of devices that is no pattern of strides.
  absl::StatusOr<Annotation> ToAnnotation(const ir::SdySharding& sharding, int rank) const;
  // The atoms of whole axes, e.g. the manual axes of a region that `sharding`'s mesh names.
  absl::StatusOr<AxisSet> ToSet(const ir::SdySharding& sharding,
                                const std::vector<std::string>& axes) const;

 private:
  absl::StatusOr<const ir::SdyMesh*> FindMesh(const ir::SdySharding& sharding) const;
  absl::StatusOr<const ir::SdyMesh*> CheckSize(const ir::SdyMesh& mesh) const;
  absl::StatusOr<AxisList> Resolve(const ir::SdyMesh& mesh, const ir::SdyAxisRef& axis) const;

  const ir::Module* module_;
  const Mesh* mesh_;
};

}  // namespace shardway::sharding
