// How often a loop runs.
#pragma once

#include <optional>

#include "shardway/ir/module.h"

namespace shardway::ir {

// Of a loop that counts up to a constant, as JAX writes scans and fori_loops: from 1 to 1e9;
// nullopt for others.
std::optional<double> TripCount(const Op& loop);

}  // namespace shardway::ir
