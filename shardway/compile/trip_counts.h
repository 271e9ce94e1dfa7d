// How often the loops of a per-device program run, where the program says so.
#pragma once

#include <optional>
#include <vector>

#include "shardway/ir/module.h"

namespace shardway::compile {

// The site of a collective call of either back end; nullopt for other operators.
std::optional<int> SiteOf(const ir::Op& op);

// How often each of `sites` collectives runs in one run of the program, by site: the product of the
// loops around it. `bounded`: whether all of those are known; an unknown one counts once.
struct Trips {
  double count = 1;
  bool bounded = true;
};
std::vector<Trips> TripsOfSites(const ir::Module& module, size_t sites);

}  // namespace shardway::compile
