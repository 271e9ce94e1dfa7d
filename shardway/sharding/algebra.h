// Shardings of one rank as a partial order: finer ones split every dimension over the same axes and
// perhaps more, minor ones.
//
//   [{x,y},{z}]  refines  [{x},{z}]  refines  [{},{}]
//   Merge([{x},{}], [{},{y}]) = [{x},{y}]         Merge([{x},{}], [{y},{}]) = none
//   Meet([{x,y},{}], [{x,z},{y}]) = [{x},{}]
//
// Laws (algebra_test.cc): Refines is a partial order with the replicated sharding at the bottom.
// Meet is its greatest lower bound, always there; Merge its least upper bound, where there is one.
// Both are commutative, associative and idempotent, and absorb each other.
#pragma once

#include <optional>

#include "shardway/sharding/sharding.h"

namespace shardway::sharding {

// All of these take shardings of equal rank.
bool Refines(const Sharding& fine, const Sharding& coarse);
// The coarsest sharding that refines both; nullopt when two dimensions disagree, or one axis would
// have to split two dimensions.
std::optional<Sharding> Merge(const Sharding& a, const Sharding& b);
// The finest sharding that both refine.
Sharding Meet(const Sharding& a, const Sharding& b);

// Whether no axis is used twice and all are the mesh's.
bool IsValid(const Sharding& sharding, const Mesh& mesh);

}  // namespace shardway::sharding
