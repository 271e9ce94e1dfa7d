// Concrete shardings in Shardy's notation: the inverse of SdyMeshes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shardway/ir/sdy.h"
#include "shardway/sharding/sharding.h"

namespace shardway::sharding {

// Writes shardings by the names of one mesh, whose axes number the devices row-major: the mesh's
// own names where they are such axes and do not overlap (the first of several wins), "_0", "_1", …
// for what is left. Reading what it writes with SdyMeshes gives the same sharding. `mesh` must
// outlive it.
class SdyNotation {
 public:
  explicit SdyNotation(const Mesh& mesh, std::string mesh_name = "mesh");

  const ir::SdyMesh& mesh() const { return sdy_; }
  // All dimensions closed but those in `open`, one bit for each.
  ir::SdySharding Write(const Sharding& sharding, uint32_t open = 0) const;
  // Whole and parts of axes, major to minor.
  std::vector<ir::SdyAxisRef> Axes(const AxisList& axes) const;

 private:
  const Mesh& mesh_;
  std::string name_;
  ir::SdyMesh sdy_;
  std::vector<std::pair<std::string, AxisList>> axes_;
};

}  // namespace shardway::sharding
