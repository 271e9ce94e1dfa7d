#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ir::Value* Start(TestProgram& p) {
  ir::Value* v = p.module->AddArgument(p.main->body, ir::Type::Scalar(ElementType::kI32));
  p.main->arg_attrs.emplace_back();
  return v;
}

TEST(DynamicSlice, OfASplitDimensionIsASumOfTheWindow) {
  TestProgram p;
  ir::Value* x = p.Argument({64, 256}, Sharding{{{}, kY}});
  ir::Value* starts[] = {Start(p), Start(p)};
  ir::Value* y = p.b.DynamicSlice(x, starts, std::vector<int64_t>{64, 3});
  p.Return({p.Constrain(y, Sharding{{{}, {}}})});
  EXPECT_THAT(p.Collectives(), ElementsAre("all_reduce sum f32[64,3] over axes [1] of [2,4]"));
}

TEST(DynamicSlice, IsScatteredWhereItsResultIsSplit) {
  TestProgram p;
  ir::Value* x = p.Argument({64, 256}, Sharding{{{}, kY}});
  ir::Value* starts[] = {Start(p), Start(p)};
  ir::Value* y = p.b.DynamicSlice(x, starts, std::vector<int64_t>{64, 32});
  p.Return({p.Constrain(y, Sharding{{{}, kY}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("reduce_scatter sum f32[64,32]")));
}

TEST(DynamicSlice, OfNearlyEverythingIsGathered) {
  TestProgram p;
  ir::Value* x = p.Argument({64, 256}, Sharding{{{}, kY}});
  ir::Value* starts[] = {Start(p), Start(p)};
  ir::Value* y = p.b.DynamicSlice(x, starts, std::vector<int64_t>{64, 250});
  p.Return({p.Constrain(y, Sharding{{{}, {}}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather f32[64,64]")));
}

TEST(DynamicUpdateSlice, IsWrittenWhereItFalls) {
  TestProgram p;
  ir::Value* x = p.Argument({7, 250}, Sharding{{kX, kY}});
  ir::Value* u = p.Argument({2, 5}, Sharding{{{}, {}}});
  ir::Value* starts[] = {Start(p), Start(p)};
  ir::Value* y = p.b.DynamicUpdateSlice(x, u, starts);
  p.Return({y});
  EXPECT_EQ(p.ShardingOf(y), "[{x}, {y}]");
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

}  // namespace
}  // namespace shardway::spmd
