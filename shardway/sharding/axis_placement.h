// The axes of one of a program's meshes on the program's mesh of atoms.
//
// Most meshes cut the devices where the atoms do. One that does not (another order of devices, or
// 3x2 beside 2x3) is placed on atoms of the same sizes all the same: inside of a program it does
// not matter which device holds which tile. At its boundary it does; there the tiles move by one
// permute from where they are to where they belong.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardway/sharding/sharding.h"

namespace shardway::sharding {

struct AxisPlacement {
  std::vector<AxisList> axes;  // the atoms of each axis, major to minor
  DeviceOrder order;           // null where the tiles lie as the atoms say
};

// `sizes` multiply to the number of devices; `ids` are those devices in the mesh's row-major order,
// a permutation (empty: 0, 1, 2, …). INVALID_ARGUMENT otherwise.
absl::StatusOr<AxisPlacement> PlaceAxes(absl::Span<const int64_t> sizes,
                                        absl::Span<const int64_t> ids, const Mesh& mesh);
// Of a whole mesh in Shardy's notation.
absl::StatusOr<AxisPlacement> PlaceAxes(const ir::SdyMesh& named, const Mesh& mesh);

}  // namespace shardway::sharding
