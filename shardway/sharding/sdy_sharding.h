// Shardy's annotations, by axis name, as annotations on the concrete mesh.
#pragma once

#include <string>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/status/statusor.h"
#include "shardway/ir/module.h"
#include "shardway/sharding/axis_placement.h"
#include "shardway/sharding/sharding.h"

namespace shardway::sharding {

// The named axes of a module's meshes on one concrete mesh. Keeps references to the meshes that it
// is asked about. Not thread-safe.
class SdyMeshes {
 public:
  // `mesh` must have been made with the strides of these meshes (MeshStrides).
  SdyMeshes(const ir::Module* module, const Mesh* mesh) : module_(module), mesh_(mesh) {}

  // INVALID_ARGUMENT naming the mesh or the axis for an unknown mesh, an unknown axis, an axis used
  // twice, a sub-axis that does not divide, a rank that does not fit, or a mesh of another number
  // of devices. On one device there is nothing to split: whatever the mesh is, as for XLA, the
  // value is whole.
  absl::StatusOr<Annotation> ToAnnotation(const ir::SdySharding& sharding, int rank) const;
  // The atoms of whole axes, e.g. the manual axes of a region that `sharding`'s mesh names.
  // UNIMPLEMENTED for a mesh whose order of devices is not that of the atoms.
  absl::StatusOr<AxisSet> ToSet(const ir::SdySharding& sharding,
                                const std::vector<std::string>& axes) const;

 private:
  absl::StatusOr<const ir::SdyMesh*> FindMesh(const ir::SdySharding& sharding) const;
  absl::Status CheckSize(const ir::SdyMesh& mesh) const;
  absl::StatusOr<AxisList> Resolve(const ir::SdyMesh& mesh, const ir::SdyAxisRef& axis,
                                   const AxisPlacement& placement) const;
  absl::StatusOr<const AxisPlacement*> Place(const ir::SdyMesh& mesh) const;

  const ir::Module* module_;
  const Mesh* mesh_;
  // Of the meshes seen so far; a mesh is the module's or stands in one of its attributes.
  mutable absl::node_hash_map<const ir::SdyMesh*, AxisPlacement> placements_;
};

}  // namespace shardway::sharding
