// The one mesh of a module: the finest common cut of every mesh and sharding that it names.
#pragma once

#include "absl/status/statusor.h"
#include "shardway/ir/module.h"
#include "shardway/sharding/mesh.h"

namespace shardway::compile {

absl::StatusOr<sharding::Mesh> MeshOfModule(const ir::Module& module, int64_t num_partitions);

}  // namespace shardway::compile
