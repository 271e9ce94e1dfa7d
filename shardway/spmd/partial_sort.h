// Sorts of which only the beginning is used, as lax.top_k writes them: sort, then slice. Such a
// sort along a split dimension needs the first k of every part, not all of them.
#pragma once

#include "shardway/spmd/program.h"

namespace shardway::spmd {

// On a sort: the results are only the first elements along the sorted dimension, as their types
// say.
inline constexpr std::string_view kFirstOnly = "shardway.first_only";

// Finds them: where every use of a sort's results is a slice that ends at k or before, the results
// become k long and the sort gets the attribute. To be called before rules are made.
void ShortenSorts(Program& program);

}  // namespace shardway::spmd
