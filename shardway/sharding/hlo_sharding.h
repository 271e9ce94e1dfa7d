// XLA's own notation of shardings: the strings of `mhlo.sharding`, and the bytes of the protocol
// buffer xla.OpSharding, in which the boundary of a compiled program is described to JAX.
//
//   sharding  := '{' body '}'            tuple := '{' sharding (',' sharding)* '}'
//   body      := 'replicated' | 'manual' | 'unreduced' | 'unknown' | 'maximal device=' id | tiled
//   tiled     := 'devices=[' dims ']' order subgroups?
//   order     := '<=[' dims ']' ('T(' permutation ')')?  |  id (',' id)*
//   subgroups := 'last_tile_dim_replicate' | 'last_tile_dims={' kind (',' kind)* '}'
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
  enum class Kind { kReplicated, kMaximal, kManual, kUnreduced, kUnknown, kTiled, kTuple };
  enum class Subgroup { kReplicated, kManual, kUnreduced };

  Kind kind = Kind::kReplicated;
  int64_t device = 0;                 // of kMaximal
  std::vector<int64_t> tile;          // tiles for each dimension, then one entry for each subgroup
  std::vector<Subgroup> subgroups;    // what the trailing entries of `tile` mean
  std::vector<int64_t> reshape;       // device order: iota(product) reshaped and transposed …
  std::vector<int64_t> permutation;   // … (empty: not transposed), …
  std::vector<int64_t> devices;       // … or the ids one by one
  std::vector<HloSharding> elements;  // of kTuple

  friend bool operator==(const HloSharding&, const HloSharding&) = default;
};

// INVALID_ARGUMENT quoting the string and the place of the fault; UNIMPLEMENTED for version 3,
// which names the axes of a mesh.
absl::StatusOr<HloSharding> ParseHloSharding(std::string_view text);

// The strides at which the tiles step through the devices, major to minor; nullopt when the order
// of devices is no such pattern. Empty for the kinds without tiles.
std::optional<std::vector<Stride>> TileStrides(const HloSharding& sharding);

// As an annotation of a tensor of this rank; `mesh` should have been made with the strides above.
// On one device tiles mean nothing. INVALID_ARGUMENT when it does not fit the rank or the mesh,
// UNIMPLEMENTED for manual subgroups in an order of devices that is no pattern of the mesh's
// strides.
absl::StatusOr<Annotation> ToAnnotation(const HloSharding& sharding, int rank, const Mesh& mesh);

// The inverse: tiles over the whole mesh in iota form, {replicated} when nothing is split, manual
// or unreduced. The tiles, then one subgroup each for the `manual` atoms, the `unreduced` ones and
// the rest, which is replicated.
HloSharding ToHloSharding(const Sharding& sharding, const Mesh& mesh, AxisSet manual = 0,
                          AxisSet unreduced = 0);

// As in `mhlo.sharding`; parses back to the same. With `devices` filled in (DevicesOf) it is
// written in the older form, device by device.
std::string ToString(const HloSharding& sharding);
// The ids of the devices of a tiled sharding, tile by tile; empty for the other kinds.
std::vector<int64_t> DevicesOf(const HloSharding& sharding);

// The serialized xla.OpSharding, as XLA writes it. FromProto is for bytes from outside:
// INVALID_ARGUMENT for what is malformed or no sharding; unknown fields are skipped.
std::string ToProto(const HloSharding& sharding);
absl::StatusOr<HloSharding> FromProto(std::string_view bytes);

// INVALID_ARGUMENT when tiles, subgroups and devices of a tiled sharding do not fit each other.
absl::Status Validate(const HloSharding& sharding);

// Of a value whose tiles lie in this order (null: as the mesh says), of parts over `unreduced`.
std::string ToOpShardingBytes(const Sharding& sharding, const Mesh& mesh,
                              const DeviceOrder& order = nullptr, AxisSet unreduced = 0);

}  // namespace shardway::sharding
