// Random shardings, for tests.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "shardway/sharding/sharding.h"

namespace shardway::sharding {

// Some of the mesh's atoms, in any order, over the dimensions; each at most once.
inline Sharding RandomSharding(std::mt19937& random, const Mesh& mesh, int rank) {
  Sharding sharding = Sharding::Replicated(rank);
  std::vector<uint8_t> atoms(mesh.num_atoms());
  std::iota(atoms.begin(), atoms.end(), uint8_t{0});
  std::shuffle(atoms.begin(), atoms.end(), random);
  for (uint8_t a : atoms) {
    const int d = std::uniform_int_distribution<int>(0, rank)(random);
    if (d < rank) sharding.dims[d].push_back(a);
  }
  return sharding;
}

}  // namespace shardway::sharding
