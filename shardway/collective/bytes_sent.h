// What a collective costs in bytes on the wire: the measure in which partitioners are compared.
#pragma once

#include "shardway/collective/spec.h"

namespace shardway::collective {

// Bytes that one device sends in one call, in a group of n devices, by the best known algorithm:
// all-reduce 2(n-1)/n of its operands, all-gather (n-1)/n of its results, reduce-scatter and
// all-to-all (n-1)/n of their operands, permute and broadcast their operands. Of a ragged
// all-to-all the most that it may be. Where groups differ in size the first one counts.
double BytesSent(const Spec& spec);

}  // namespace shardway::collective
