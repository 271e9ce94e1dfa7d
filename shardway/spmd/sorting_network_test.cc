#include "shardway/spmd/sorting_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace shardway::spmd {
namespace {

TEST(SortingNetwork, ComparesEachPlaceOnceInARound) {
  for (int n = 1; n <= 70; ++n) {
    for (const NetworkRound& round : SortingNetwork(n)) {
      std::set<int> seen;
      for (auto [a, b] : round) {
        EXPECT_LT(a, b);
        EXPECT_TRUE(a >= 0 && b < n && seen.insert(a).second && seen.insert(b).second) << n;
      }
    }
  }
}

TEST(SortingNetwork, HasAsManyRoundsAsItSays) {
  EXPECT_EQ(SortingNetwork(1).size(), 0u);
  EXPECT_EQ(SortingNetwork(2).size(), 1u);
  EXPECT_EQ(SortingNetwork(8).size(), 6u);
  EXPECT_EQ(SortingNetwork(9).size(), 10u);
  EXPECT_EQ(SortingNetwork(64).size(), 21u);
}

// What sorts all zeros and ones sorts everything.
TEST(SortingNetwork, SortsEverySequenceOfZerosAndOnes) {
  for (int n = 1; n <= 12; ++n) {
    for (int bits = 0; bits < 1 << n; ++bits) {
      std::vector<int> x(n);
      for (int i = 0; i < n; ++i) x[i] = bits >> i & 1;
      for (const NetworkRound& round : SortingNetwork(n)) {
        for (auto [a, b] : round) {
          if (x[b] < x[a]) std::swap(x[a], x[b]);
        }
      }
      ASSERT_TRUE(std::is_sorted(x.begin(), x.end())) << n << " places, " << bits;
    }
  }
}

TEST(SortingNetwork, SortsBlocks) {
  std::mt19937 random(7);
  for (int n = 1; n <= 40; ++n) {
    const int tile = 1 + static_cast<int>(random() % 5);
    std::vector<std::vector<int>> blocks(n);
    std::vector<int> all;
    for (auto& block : blocks) {
      for (int i = 0; i < tile; ++i) block.push_back(static_cast<int>(random() % 50));
      all.insert(all.end(), block.begin(), block.end());
      std::sort(block.begin(), block.end());
    }
    for (const NetworkRound& round : SortingNetwork(n)) {
      for (auto [a, b] : round) {
        std::vector<int> both = blocks[a];
        both.insert(both.end(), blocks[b].begin(), blocks[b].end());
        std::sort(both.begin(), both.end());
        blocks[a].assign(both.begin(), both.begin() + tile);
        blocks[b].assign(both.begin() + tile, both.end());
      }
    }
    std::vector<int> got;
    for (const auto& block : blocks) got.insert(got.end(), block.begin(), block.end());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(got, all) << n << " blocks of " << tile;
  }
}

}  // namespace
}  // namespace shardway::spmd
