#include "shardway/spmd/reshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using Kind = ReshardStep::Kind;

std::vector<Kind> Kinds(std::vector<int64_t> dims, Sharding from, Sharding to) {
  TestProgram p;
  std::vector<Kind> kinds;
  for (const auto& step : PlanReshard(TestProgram::F32(dims), from, to, p.program.mesh))
    kinds.push_back(step.kind);
  return kinds;
}

TEST(PlanReshard, TakesTheCheapStep) {
  EXPECT_THAT(Kinds({8, 8}, Sharding{{kX, {}}}, Sharding{{{0, 1, 2}, {}}}),
              ElementsAre(Kind::kSlice));
  EXPECT_THAT(Kinds({8, 8}, Sharding{{kX, {}}}, Sharding{{{}, kX}}), ElementsAre(Kind::kAllToAll));
  EXPECT_THAT(Kinds({8, 8}, Sharding{{{0, 1, 2}, {}}}, Sharding{{kX, {}}}),
              ElementsAre(Kind::kAllGather));
  EXPECT_THAT(Kinds({8, 8}, Sharding{{{1}, {}}}, Sharding{{{0}, {}}}), ElementsAre(Kind::kPermute));
  EXPECT_THAT(Kinds({8, 8}, Sharding{{kY, {0}}}, Sharding{{{}, {0}}}),
              ElementsAre(Kind::kAllGather));
}

TEST(PlanReshard, SlicesBeforeItGathers) {
  EXPECT_THAT(Kinds({8, 8}, Sharding{{kY, {}}}, Sharding{{{}, kX}}),
              ElementsAre(Kind::kSlice, Kind::kAllGather));
}

TEST(PlanReshard, TilesThatDoNotNestGoThroughTheWhole) {
  // 5 over x: tiles of 3; over x,y: tiles of 1. 3 is no multiple of 4 tiles of 1.
  EXPECT_THAT(Kinds({5}, Sharding{{kX}}, Sharding{{{0, 1, 2}}}),
              ElementsAre(Kind::kAllGather, Kind::kSlice));
}

TEST(PlanReshard, ArrivesForAllPairsOfShardings) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  TestProgram p;
  auto any = [&](int rank) {
    Sharding s = Sharding::Replicated(rank);
    AxisList atoms = {0, 1, 2};
    std::shuffle(atoms.begin(), atoms.end(), random);
    for (uint8_t a : atoms) {
      const int d = static_cast<int>(random() % (rank + 1));
      if (d < rank) s.dims[d].push_back(a);
    }
    return s;
  };
  for (int round = 0; round < 3000; ++round) {
    const int rank = 1 + static_cast<int>(random() % 3);
    std::vector<int64_t> dims;
    for (int d = 0; d < rank; ++d) dims.push_back(static_cast<int64_t>(random() % 18));
    const Sharding from = any(rank), to = any(rank);
    const auto plan = PlanReshard(TestProgram::F32(dims), from, to, p.program.mesh);
    ASSERT_LE(plan.size(), 12u);
    EXPECT_EQ(plan.empty() ? from : plan.back().after, to);
  }
}

}  // namespace
}  // namespace shardway::spmd
