#include "shardway/spmd/combine_neighbours.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const Sharding kRows{{kX, {}}};
const Sharding kWhole = Sharding::Replicated(2);

TEST(CombineNeighbours, GathersOfOneMomentAreOne) {
  TestProgram p;
  ir::Value* a = p.Argument({8, 8}, kRows);
  ir::Value* b = p.Argument({16, 4}, kRows);
  p.Return({p.Constrain(a, kWhole), p.Constrain(b, kWhole)});
  EXPECT_THAT(p.Collectives(), ElementsAre("all_gather f32[4,8], f32[8,4] along dimension 0 over "
                                           "axes [0] of [2,4]"));
  EXPECT_THAT(p.device.collectives[0].results, SizeIs(2));
  EXPECT_THAT(p.Collectives(Backend::kNative), SizeIs(2)) << "the plugin has a combiner";
}

TEST(CombineNeighbours, AnEarlierOneWaitsUnlessItIsUsed) {
  for (const bool used : {false, true}) {
    TestProgram p;
    ir::Value* a = p.Constrain(p.Argument({8, 8}, kRows), kWhole);
    ir::Value* between = p.b.Unary(ir::OpKind::kTanh, used ? a : p.Argument({8, 8}, kWhole));
    // Made in between, so that it cannot come forward.
    ir::Value* made = p.b.Unary(ir::OpKind::kTanh, p.Argument({8, 8}, kRows));
    p.Annotate(made, kRows);
    ir::Value* c = p.Constrain(made, kWhole);
    p.Return({a, between, c});
    EXPECT_THAT(p.Collectives(), SizeIs(used ? 2 : 1)) << used;
  }
}

TEST(CombineNeighbours, ALaterOneComesForward) {
  TestProgram p;
  ir::Value* b = p.Argument({8, 8}, kRows);
  ir::Value* a = p.Constrain(p.Argument({8, 8}, kRows), kWhole);
  ir::Value* used = p.b.Unary(ir::OpKind::kTanh, a);
  p.Return({used, p.Constrain(b, kWhole)});
  EXPECT_THAT(p.Collectives(), SizeIs(1));
}

TEST(CombineNeighbours, OneThatNeedsTheOtherComesAfterIt) {
  TestProgram p;
  ir::Value* a = p.b.Unary(ir::OpKind::kTanh, p.Argument({8, 8}, kRows));
  p.Annotate(a, kWhole);
  ir::Value* split = p.b.Unary(ir::OpKind::kTanh, a);
  p.Annotate(split, kRows);
  p.Return({p.Constrain(split, kWhole)});
  EXPECT_THAT(p.Collectives(), SizeIs(2));
}

TEST(CombineNeighbours, OtherAxesDimensionsAndLargeOnesStayApart) {
  TestProgram p;
  const Sharding columns{{{}, kX}}, other{{kY, {}}};
  std::vector<ir::Value*> results;
  for (const Sharding& from : {kRows, columns, other})
    results.push_back(p.Constrain(p.Argument({8, 8}, from), kWhole));
  for (int i = 0; i < 2; ++i) results.push_back(p.Constrain(p.Argument({512, 512}, kRows), kWhole));
  p.Return(results);
  EXPECT_THAT(p.Collectives(), SizeIs(5));
}

TEST(CombineNeighbours, PermutesAlikeAreOne) {
  TestProgram p;
  const Sharding from{{AxisList{1}, {}}}, to{{kX, {}}};
  ir::Value* a = p.Argument({8, 8}, from);
  ir::Value* b = p.Argument({4, 4}, from);
  p.Return({p.Constrain(a, to), p.Constrain(b, to)});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("collective_permute f32[4,8], f32[2,4] {")));
}

}  // namespace
}  // namespace shardway::spmd
