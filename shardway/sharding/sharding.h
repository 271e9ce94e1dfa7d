// How one tensor is laid out over the mesh: for each dimension the atoms that split it, major to
// minor. Atoms that split no dimension replicate the tensor (or are manual, see spmd/program.h).
//
// A dimension of size d over n devices has shards of ceil(d / n) elements; where n does not divide
// d the last shards are padded at the end, and what the padding holds is undefined.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "shardway/ir/type.h"
#include "shardway/sharding/mesh.h"

namespace shardway::sharding {

struct Sharding {
  absl::InlinedVector<AxisList, 4> dims;  // one for each dimension

  static Sharding Replicated(int rank) { return Sharding{absl::InlinedVector<AxisList, 4>(rank)}; }
  int rank() const { return static_cast<int>(dims.size()); }
  AxisSet used() const;
  bool replicated() const { return used() == 0; }
  friend bool operator==(const Sharding&, const Sharding&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Sharding& s) {
    return H::combine(std::move(h), s.dims);
  }
};

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The type of one shard. Values that are not tensors keep theirs.
ir::Type LocalType(const ir::Type& type, const Sharding& sharding, const Mesh& mesh);
// Whether every sharded dimension divides.
bool IsEven(const ir::Type& type, const Sharding& sharding, const Mesh& mesh);
// "[{x}, {}, {y:(1)2}]"
std::string ToString(const Sharding& sharding, const Mesh& mesh);

// order[d] is the device that holds the tile which the atoms put on device d; null: the same one.
using DeviceOrder = std::shared_ptr<const std::vector<int64_t>>;

// What a user (or JAX) demanded of a value. Dimensions that are open may be split further by
// propagation; `forbidden` atoms may not be used for any of them.
struct Annotation {
  Sharding sharding;
  uint32_t open = 0;  // one bit for each dimension
  AxisSet forbidden = 0;
  AxisSet manual =
      0;  // atoms over which the value is written per device already (mhlo.sharding only)
  // Atoms whose devices hold parts, of which the value is the sum. It is held as parts over just
  // these (spmd/unreduced.h).
  AxisSet unreduced = 0;
  bool maximal = false;  // on one device; held as replicated
  DeviceOrder order;     // matters at the program's boundary only, see axis_placement.h
  // Of each dimension; smaller ones propagate first. Empty: all 0.
  absl::InlinedVector<int64_t, 4> priorities;
};

}  // namespace shardway::sharding
