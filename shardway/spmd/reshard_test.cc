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
  for (const auto& step : PlanReshard(TestProgram::F32(dims), from, to, p.program.mesh).steps)
    kinds.push_back(step.kind);
  return kinds;
}

Sharding AnySharding(std::mt19937& random, int rank) {
  Sharding s = Sharding::Replicated(rank);
  AxisList atoms = {0, 1, 2};
  std::shuffle(atoms.begin(), atoms.end(), random);
  for (uint8_t a : atoms) {
    const int d = static_cast<int>(random() % (rank + 1));
    if (d < rank) s.dims[d].push_back(a);
  }
  return s;
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

TEST(PlanReshard, SwapsAxesWithoutTheWhole) {
  EXPECT_THAT(Kinds({512, 512}, Sharding{{kX, kY}}, Sharding{{kY, kX}}),
              ElementsAre(Kind::kAllToAll, Kind::kPermute));
}

TEST(PlanReshard, SlicesByAnyAxisBeforeItPermutes) {
  EXPECT_THAT(Kinds({512, 512}, Sharding{{kX, {}}}, Sharding{{kY, {}}}),
              ElementsAre(Kind::kSlice, Kind::kPermute));
  EXPECT_THAT(Kinds({512, 512}, Sharding{{kY, {}}}, Sharding{{kX, {}}}),
              ElementsAre(Kind::kPermute, Kind::kAllGather));
}

TEST(PlanReshard, TilesThatDoNotNestExchangeEdges) {
  // 1003 over x: tiles of 502; over x,y: tiles of 126, four of which are 504.
  EXPECT_THAT(Kinds({1003, 64}, Sharding{{kX, {}}}, Sharding{{{0, 1, 2}, {}}}),
              ElementsAre(Kind::kRetile, Kind::kSlice));
  EXPECT_THAT(Kinds({1003, 64}, Sharding{{{0, 1, 2}, {}}}, Sharding{{kX, {}}}),
              ElementsAre(Kind::kAllGather, Kind::kRetile));
}

TEST(PlanReshard, UnevenDimensionsTakeAllToAlls) {
  EXPECT_THAT(Kinds({131, 257}, Sharding{{{0, 1, 2}, {}}}, Sharding{{{}, {0, 1, 2}}}),
              ElementsAre(Kind::kAllToAll));
}

TEST(PlanReshard, AxesAcrossIslandsAreDearer) {
  TestProgram p;
  const ir::Type type = TestProgram::F32({512, 512});
  const Sharding from{{kX, {}}}, to{{{}, {}}};
  const double near = PlanReshard(type, from, to, p.program.mesh).cost;
  p.OnIslands({0, 0, 0, 0, 1, 1, 1, 1});
  EXPECT_GT(PlanReshard(type, from, to, p.program.mesh).cost, 3 * near);
  EXPECT_EQ(p.program.mesh.PriceOf(sharding::ToSet(kY)), topology::LinkPrice());
}

// From rows over y to rows over x: what x's halves lack is inside the island of each already.
TEST(PlanReshard, StaysInsideIslandsWhereItCan) {
  TestProgram p;
  const ir::Type type = TestProgram::F32({512, 512});
  auto kinds = [&] {
    std::vector<Kind> kinds;
    for (const auto& step :
         PlanReshard(type, Sharding{{kY, {}}}, Sharding{{kX, {}}}, p.program.mesh).steps)
      kinds.push_back(step.kind);
    return kinds;
  };
  EXPECT_THAT(kinds(), ElementsAre(Kind::kPermute, Kind::kAllGather));
  p.OnIslands({0, 0, 0, 0, 1, 1, 1, 1});
  EXPECT_THAT(kinds(), ElementsAre(Kind::kAllGather, Kind::kSlice));
  p.OnIslands({0, 1, 0, 1, 0, 1, 0, 1});  // y's minor half crosses
  EXPECT_THAT(kinds(), ElementsAre(Kind::kPermute, Kind::kAllGather));
}

TEST(PlanReshard, ArrivesForAllPairsOfShardings) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  TestProgram p;
  for (int round = 0; round < 3000; ++round) {
    const int rank = 1 + static_cast<int>(random() % 3);
    std::vector<int64_t> dims(rank);
    for (int64_t& dim : dims) dim = static_cast<int64_t>(random() % 18);
    const Sharding from = AnySharding(random, rank), to = AnySharding(random, rank);
    const auto plan = PlanReshard(TestProgram::F32(dims), from, to, p.program.mesh);
    ASSERT_LE(plan.steps.size(), 12u);
    EXPECT_EQ(plan.steps.empty() ? from : plan.steps.back().after, to);
  }
}

// A tile that reaches beyond the end is made without a padded copy of what it is cut from.
TEST(Reshard, SlicesUnevenTilesWithoutPaddingTheWhole) {
  for (const int64_t size : {13, 9, 4}) {  // the last part partly, or wholly padding; even
    TestProgram p;
    ir::Value* x = p.Argument({size, 6}, Sharding{{{}, {}}});
    p.Return({p.Constrain(x, Sharding{{kY, {}}})});
    EXPECT_THAT(p.Collectives(), ::testing::IsEmpty());
    int64_t most = 0;
    for (const ir::Op* op : p.device.module->main()->body->ops) {
      for (const ir::Value* v : op->results) most = std::max(most, v->type.num_elements());
    }
    EXPECT_EQ(most, sharding::CeilDiv(size, 4) * 6) << size;
  }
}

// XLA merges a slice of a slice by adding their starts, as if none had to be moved back.
TEST(Reshard, NoSliceBeginsBeyondItsBounds) {
  TestProgram p;
  ir::Value* x = p.Argument({13, 6}, Sharding{{{}, {}}});
  p.Return({p.Constrain(x, Sharding{{kY, {}}})});
  p.Partitioned(Backend::kFfi);
  int slices = 0;
  for (const ir::Op* op : p.device.module->main()->body->ops) {
    if (op->kind != ir::OpKind::kDynamicSlice || op->operand(0)->type.rank() != 2) continue;
    ++slices;
    EXPECT_EQ(op->operand(1)->def->kind, ir::OpKind::kMinimum);
  }
  EXPECT_EQ(slices, 1);
}

// What XLA warns of as "involuntary full rematerialization": neither from nor to holds much, but on
// the way every device holds the whole.
TEST(PlanReshard, NeverHoldsMoreThanTheLargerShard) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  TestProgram p;
  for (int round = 0; round < 1000; ++round) {
    const int rank = 1 + static_cast<int>(random() % 3);
    std::vector<int64_t> dims(rank);
    for (int64_t& dim : dims) dim = (1 << 20) * (1 + static_cast<int64_t>(random() % 4));
    const ir::Type type = TestProgram::F32(dims);
    const Sharding from = AnySharding(random, rank), to = AnySharding(random, rank);
    auto bytes = [&](const Sharding& s) {
      return sharding::LocalType(type, s, p.program.mesh).num_bytes();
    };
    for (const auto& step : PlanReshard(type, from, to, p.program.mesh).steps) {
      EXPECT_LE(bytes(step.after), std::max(bytes(from), bytes(to)))
          << sharding::ToString(from, p.program.mesh) << " to "
          << sharding::ToString(to, p.program.mesh) << " of " << type.ToString();
    }
  }
}

}  // namespace
}  // namespace shardway::spmd
