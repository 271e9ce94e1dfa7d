// Shardy's sharding notation as it stands in a module: what the user (or JAX) wrote, by axis name.
// These are annotations; shardway/sharding turns them into shardings on a concrete mesh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardway::ir {

// mesh<["x"=2, "y"=4]>, optionally with an explicit order of device ids (row-major over the axes).
// A mesh with no axes and one device id is that one device ("maximal"); with neither it is empty.
struct SdyMesh {
  struct Axis {
    std::string name;
    int64_t size = 0;
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  std::vector<Axis> axes;
  std::vector<int64_t> device_ids;  // empty: iota
  friend bool operator==(const SdyMesh&, const SdyMesh&) = default;
};

// An axis, or the part of one: "x":(pre)size takes `size` ways out of the axis after `pre` ways.
struct SdyAxisRef {
  std::string name;
  std::optional<std::pair<int64_t, int64_t>> sub_axis;  // (pre-size, size)
  friend bool operator==(const SdyAxisRef&, const SdyAxisRef&) = default;
};

// {"x", "y", ?}p1: the axes that split one dimension, major to minor.
struct SdyDimSharding {
  std::vector<SdyAxisRef> axes;
  bool closed = true;               // closed: propagation may not split it further
  std::optional<int64_t> priority;  // 0 propagates first; absent means 0
  friend bool operator==(const SdyDimSharding&, const SdyDimSharding&) = default;
};

// sharding<@mesh, [dims], replicated={…}, unreduced={…}>
struct SdySharding {
  std::string mesh_name;               // symbol of the module's mesh; empty when inlined
  std::optional<SdyMesh> mesh;         // the inlined mesh
  std::vector<SdyDimSharding> dims;    // one per dimension of the value
  std::vector<SdyAxisRef> replicated;  // axes that propagation may not use
  std::vector<SdyAxisRef> unreduced;   // axes over which a reduction is still outstanding
  int64_t reduction = 0;               // the kind of that reduction, as numbered in the artifact
  bool is_sum() const { return reduction == 0; }
  friend bool operator==(const SdySharding&, const SdySharding&) = default;
};

// op_sharding_rule<([i, j], [j, k])->([i, k]) {i=8, j=4, k=2} …>: how dimensions of a custom call
// correspond. A dimension lists its factors, major to minor.
struct SdyShardingRule {
  using TensorMapping = std::vector<std::vector<int64_t>>;  // per dimension: factor indices
  std::vector<int64_t> factor_sizes;
  std::vector<TensorMapping> operands;
  std::vector<TensorMapping> results;
  std::vector<int64_t> reduction_factors;
  std::vector<int64_t> need_replication_factors;
  std::vector<int64_t> permutation_factors;
  std::vector<int64_t> blocked_propagation_factors;
  bool is_custom = false;
  friend bool operator==(const SdyShardingRule&, const SdyShardingRule&) = default;
};

}  // namespace shardway::ir
