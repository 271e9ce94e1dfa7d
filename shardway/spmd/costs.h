// What the planners weigh, in one place. The unit is the byte: what a device could send inside its
// island in the same time. What crosses islands is dearer, see Mesh::Price.
#pragma once

namespace shardway::spmd {

// What a collective costs beside its data. A permute or a gather of a few rows is less than one
// that all parts wait for.
inline constexpr double kCollectivePrice = 4096;
inline constexpr double kPermutePrice = 512;
inline constexpr double kCopyPrice = 0.05;  // of a byte copied locally
// While a device does one multiply-add; while it touches one element.
inline constexpr double kBytesPerFlop = 0.05;
inline constexpr double kBytesPerElement = 0.2;

}  // namespace shardway::spmd
