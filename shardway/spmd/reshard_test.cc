#include "shardway/spmd/reshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "shardway/spmd/costs.h"
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

Sharding AnySharding(std::mt19937& random, int rank, const Mesh& mesh) {
  Sharding s = Sharding::Replicated(rank);
  AxisList atoms = mesh.ToList(mesh.all());
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
    const Sharding from = AnySharding(random, rank, p.program.mesh),
                   to = AnySharding(random, rank, p.program.mesh);
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
struct AnyMesh {
  int64_t x, y;
  double most = 1;  // that a step may hold, beside the larger of the two shards
};
class NeverHoldsMore : public ::testing::TestWithParam<AnyMesh> {
 protected:
  void Check(bool even, double padding) {
    constexpr int64_t kSizes[] = {12960000, 3600,
                                  360};  // for each rank: what a call costs is little
    const auto [x, y, most] = GetParam();
    Mesh mesh = *Mesh::Make(x * y, std::vector<sharding::Stride>{{x, y}, {y, 1}});
    const uint32_t seed = std::random_device()();
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 1000; ++round) {
      const int rank = 1 + static_cast<int>(random() % 3);
      std::vector<int64_t> dims(rank);
      for (int64_t& dim : dims) {
        dim = kSizes[rank - 1] * (1 + static_cast<int64_t>(random() % 4));
        if (!even) dim += static_cast<int64_t>(random() % 60);
      }
      const ir::Type type = TestProgram::F32(dims);
      const Sharding from = AnySharding(random, rank, mesh), to = AnySharding(random, rank, mesh);
      auto bytes = [&](const Sharding& s) {
        return sharding::LocalType(type, s, mesh).num_bytes();
      };
      const double larger = static_cast<double>(std::max(bytes(from), bytes(to)));
      for (const auto& step : PlanReshard(type, from, to, mesh).steps) {
        double held = 4;
        for (int64_t tile : step.shard) held *= static_cast<double>(tile);
        EXPECT_LE(held, padding * most * larger)
            << sharding::ToString(from, mesh) << " to " << sharding::ToString(to, mesh) << " of "
            << type.ToString() << " over " << x << " x " << y;
      }
    }
  }
};

TEST_P(NeverHoldsMore, ThanTheLargerShard) { Check(/*even=*/true, 1); }

// What tiles reach beyond the end comes on top.
TEST_P(NeverHoldsMore, ThanTheLargerShardAndItsPadding) { Check(/*even=*/false, 1.3); }

INSTANTIATE_TEST_SUITE_P(Meshes, NeverHoldsMore,
                         ::testing::Values(AnyMesh{2, 4}, AnyMesh{3, 2}, AnyMesh{2, 3},
                                           AnyMesh{5, 3}, AnyMesh{3, 4}, AnyMesh{6, 10, 2}),
                         [](const auto& info) {
                           return absl::StrCat(info.param.x, "x", info.param.y);
                         });

TEST(PlanReshard, PartsThatDoNotNestMeetInTheFinestOfBoth) {
  const Mesh mesh = *Mesh::Make(6, std::vector<sharding::Stride>{{3, 2}, {2, 1}});
  const AxisList x = {0}, y = {1};
  for (const int64_t size : {780000, 780001}) {
    const ir::Type type = TestProgram::F32({size});
    const double whole = 4 * static_cast<double>(size);
    // 1/6 is permuted, 2/3 of a half gathered, and both are copied; a gather of the whole sends
    // 2/3.
    EXPECT_LT(PlanReshard(type, Sharding{{x}}, Sharding{{y}}, mesh).cost,
              whole * 0.6 + 4 * kCollectivePrice);
  }
}

}  // namespace
}  // namespace shardway::spmd
