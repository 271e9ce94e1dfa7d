// A sorting network: rounds of comparisons between fixed places after which any input is in order.
// Where each place holds a sorted block instead of one element, and a comparison leaves the lower
// half of two blocks' elements at the first place and the upper half at the second, the blocks come
// into order just so.
#pragma once

#include <utility>
#include <vector>

namespace shardway::spmd {

// Pairs (a, b), a < b, of which each place is in one at most.
using NetworkRound = std::vector<std::pair<int, int>>;

// Batcher's odd-even merge sort of n places: log n (log n + 1) / 2 rounds, log rounded up.
std::vector<NetworkRound> SortingNetwork(int n);

}  // namespace shardway::spmd
