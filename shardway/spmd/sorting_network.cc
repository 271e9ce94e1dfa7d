#include "shardway/spmd/sorting_network.h"

#include <algorithm>

namespace shardway::spmd {

std::vector<NetworkRound> SortingNetwork(int n) {
  std::vector<NetworkRound> rounds;
  for (int run = 1; run < n; run *= 2) {             // sorted runs of this length are merged
    for (int apart = run; apart >= 1; apart /= 2) {  // in each, places so far apart are compared
      NetworkRound round;
      for (int first = apart % run; first + apart < n; first += 2 * apart) {
        for (int a = first; a < std::min(first + apart, n - apart); ++a) {
          if (a / (2 * run) == (a + apart) / (2 * run)) round.emplace_back(a, a + apart);
        }
      }
      rounds.push_back(std::move(round));
    }
  }
  return rounds;
}

}  // namespace shardway::spmd
