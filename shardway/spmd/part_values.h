// Scalars that differ from part to part: the offset of a tile, the length of a stretch; and which
// devices two parts are.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

// For each part its number; nullopt where any will do.
using PartNumbers = std::vector<std::optional<int64_t>>;

// Whether one number serves all parts; which.
std::optional<int64_t> SameForAll(const PartNumbers& numbers);

// The number of this device's part along `axes`, an i32 scalar: a constant, clamp(a, p·part + q, b)
// where that fits, otherwise looked up in a table.
ir::Value* NumberOfPart(Emitter& e, const AxisList& axes, const PartNumbers& numbers);

// For a permute in which part p sends to part `to`[p], or to none (-1).
Emitter::Pairs PairsOfParts(const std::vector<int64_t>& to);

}  // namespace shardway::spmd
