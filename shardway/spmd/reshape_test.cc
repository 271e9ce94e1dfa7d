#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/room.h"
#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<int64_t> Sizes(const OpRule& rule, const absl::InlinedVector<int, 1>& dim) {
  std::vector<int64_t> sizes;
  for (int f : dim) sizes.push_back(rule.factors[f].size);
  return sizes;
}

OpRule RuleOf(std::vector<int64_t> from, std::vector<int64_t> to) {
  TestProgram p;
  ir::Value* v = p.Argument(from, Sharding::Replicated(static_cast<int>(from.size())));
  return ReshapeRule(*p.b.Reshape(v, to)->def);
}

TEST(ReshapeRule, SplitsAndMerges) {
  const OpRule rule = RuleOf({4, 6}, {8, 3});
  EXPECT_THAT(Sizes(rule, rule.operands[0][0]), ElementsAre(4));
  EXPECT_THAT(Sizes(rule, rule.operands[0][1]), ElementsAre(2, 3));
  EXPECT_EQ(rule.results[0][0].size(), 2u);
  EXPECT_EQ(rule.results[0][0][1], rule.operands[0][1][0]);
}

TEST(ReshapeRule, OnesHaveNoFactors) {
  const OpRule rule = RuleOf({1, 6, 1}, {6});
  EXPECT_THAT(rule.operands[0][0], IsEmpty());
  EXPECT_EQ(rule.operands[0][1], rule.results[0][0]);
}

TEST(ReshapeRule, UnrelatedBordersAreReplicated) {
  const OpRule rule = RuleOf({6, 4}, {4, 6});
  EXPECT_THAT(Sizes(rule, rule.operands[0][0]), ElementsAre(2, 3));
  EXPECT_EQ(rule.operands[0][0][0], rule.results[0][0][0]);
  EXPECT_EQ(rule.factors[rule.operands[0][0][1]].kind, Factor::Kind::kReplicated);
}

TEST(Reshape, SplittingKeepsTheMajorAxis) {
  TestProgram p;
  ir::Value* v = p.Argument({16, 8}, Sharding{{kX, kY}});
  ir::Value* r = p.b.Reshape(v, std::vector<int64_t>{2, 8, 8});
  p.Return({r});
  EXPECT_EQ(p.ShardingOf(r), "[{x}, {}, {y}]");
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

TEST(Reshape, AxesMayFallBetweenFactors) {
  // 16 = 2·8 over y (4 ways): 2 ways on the first, 2 on the second.
  TestProgram p;
  ir::Value* v = p.Argument({16}, Sharding{{kY}});
  ir::Value* r = p.b.Reshape(v, std::vector<int64_t>{2, 8});
  p.Return({r});
  EXPECT_EQ(p.ShardingOf(r), "[{y:(1)2}, {y:(2)2}]");
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

TEST(Reshape, UnevenTilesMoveTheirBordersByPermutes) {
  TestProgram p;
  ir::Value* v = p.Argument({129, 64}, Sharding{{kY, {}}});
  ir::Value* r = p.b.Reshape(v, std::vector<int64_t>{258, 32});
  p.Return({r});
  EXPECT_EQ(p.ShardingOf(r), "[{y}, {}]");
  // Tiles of 66 rows of 32 elements become tiles of 65: the last part misses three.
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("collective_permute f32[1,3,32]")));
}

TEST(Reshape, UnevenTilesWithTheSameBordersStayWhereTheyAre) {
  TestProgram p;
  ir::Value* v = p.Argument({131, 64}, Sharding{{kY, {}}});
  p.Return({p.b.Reshape(v, std::vector<int64_t>{262, 32})});
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

}  // namespace
}  // namespace shardway::spmd
