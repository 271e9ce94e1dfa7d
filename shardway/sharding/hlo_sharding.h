// XLA's own notation of shardings: the strings of `mhlo.sharding`, and the bytes of the protocol
// buffer xla.OpSharding, in which the boundary of a compiled program is described to JAX.
//
//   sharding  := '{' body '}'            tuple := '{' sharding (',' sharding)* '}'
//   body      := 'replicated' | 'manual' | 'unknown' | 'maximal device=' id | tiled
//   tiled     := 'devices=[' dims ']' order ('last_tile_dim_replicate' | 'last_tile_dims={' kind,…
//   '}')? order     := '<=[' dims ']' ('T(' permutation ')')?  |  id (',' id)*
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardway/sharding/sharding.h"

namespace shardway::sharding {

struct HloSharding {
  enum class Kind { kReplicated, kMaximal, kManual, kUnknown, kTiled, kTuple };
  enum class Subgroup { kReplicated, kManual };

  Kind kind = Kind::kReplicated;
  int64_t device = 0;                 // of kMaximal
  std::vector<int64_t> tile;          // tiles for each dimension, then one entry for each subgroup
  std::vector<Subgroup> subgroups;    // what the trailing entries of `tile` mean
  std::vector<int64_t> reshape;       // device order: iota(product) reshaped and transposed …
  std::vector<int64_t> permutation;   // … (empty: not transposed), …
  std::vector<int64_t> devices;       // … or the ids one by one
  std::vector<HloSharding> elements;  // of kTuple
};

// INVALID_ARGUMENT quoting the string and the place of the fault.
absl::StatusOr<HloSharding> ParseHloSharding(std::string_view text);

// The strides at which the tiles step through the devices, major to minor; nullopt when the order
// of devices is no such pattern. Empty for the kinds without tiles.
std::optional<std::vector<Stride>> TileStrides(const HloSharding& sharding);

// As an annotation of a tensor of this rank; `mesh` must have been made with the strides above.
// INVALID_ARGUMENT when it does not fit the rank or the mesh, UNIMPLEMENTED for orders of devices
// that are no pattern of strides.
absl::StatusOr<Annotation> ToAnnotation(const HloSharding& sharding, int rank, const Mesh& mesh);

// The serialized xla.OpSharding: REPLICATED when nothing is split, otherwise tiles over the whole
// mesh in iota form, with replicate_on_last_tile_dim when some atoms split nothing.
std::string ToOpShardingBytes(const Sharding& sharding, const Mesh& mesh);

}  // namespace shardway::sharding
