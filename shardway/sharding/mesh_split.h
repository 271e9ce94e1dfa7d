// Annotations by mesh axis, for programs built in C++ (GSPMD §3.2).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardway/ir/builder.h"

namespace shardway::sharding {

// Appends a constraint: dimension i of `x` is split over the axes `dims[i]` (major to minor; none:
// not split) of the mesh that the module calls `mesh`. Returns the constrained value, equal to `x`;
// what no annotation says is completed by propagation. INVALID_ARGUMENT naming the value's type and
// the axis: a mesh or an axis that the module lacks, an axis used twice, another number of
// dimensions.
absl::StatusOr<ir::Value*> MeshSplit(ir::Builder& b, ir::Value* x, std::string_view mesh,
                                     absl::Span<const std::vector<std::string>> dims);

}  // namespace shardway::sharding
