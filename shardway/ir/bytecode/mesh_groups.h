// Replica groups that are written as axes of a mesh, spelled out as lists of devices.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "shardway/ir/attribute.h"

namespace shardway::ir::bytecode {

// The devices of one group differ along `axes` (the first varies slowest); groups are ordered by
// the rest of the mesh, row-major. Example: mesh <["x"=2, "y"=2]>, axes ["x"]: {0, 2}, {1, 3}.
// The result is a tensor<groups x members x i64>. INVALID_ARGUMENT when an axis doesn't exist, is
// named twice, or its part does not divide it.
absl::StatusOr<Constant> ExpandMeshAxes(const SdyMesh& mesh, const std::vector<SdyAxisRef>& axes);

}  // namespace shardway::ir::bytecode
