#include "shardway/spmd/partitioner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Partition, ContractionOverASplitDimensionIsSummedOnce) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{kX, kY}});
  ir::Value* w = p.Argument({16, 4}, Sharding{{kY, {}}});
  p.Return({p.Constrain(Dot(p.b, x, w, 1, 0, {8, 4}), Sharding{{kX, {}}})});
  EXPECT_THAT(p.Collectives(), ElementsAre("all_reduce sum f32[4,4] over axes [1] of [2,4]"));
}

TEST(Partition, SplitResultsOfAContractionAreScattered) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{{}, kY}});
  ir::Value* w = p.Argument({16, 4}, Sharding{{kY, {}}});
  p.Return({p.Constrain(Dot(p.b, x, w, 1, 0, {8, 4}), Sharding{{kY, {}}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("reduce_scatter sum f32[8,4]")));
}

TEST(Partition, AlsoWhereTheyDoNotDivide) {
  TestProgram p;
  ir::Value* x = p.Argument({6, 16}, Sharding{{{}, kY}});
  ir::Value* w = p.Argument({16, 64}, Sharding{{kY, {}}});
  p.Return({p.Constrain(Dot(p.b, x, w, 1, 0, {6, 64}), Sharding{{kY, {}}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("reduce_scatter sum f32[8,64]")));
}

TEST(Partition, MegatronBlockHasOneAllReduce) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 64}, Sharding{{kX, {}}});
  ir::Value* up = p.Argument({64, 256}, Sharding{{{}, kY}});
  ir::Value* down = p.Argument({256, 64}, Sharding{{kY, {}}});
  ir::Value* h = p.b.Unary(ir::OpKind::kTanh, Dot(p.b, x, up, 1, 0, {8, 256}));
  p.Return({p.Constrain(Dot(p.b, h, down, 1, 0, {8, 64}), Sharding{{kX, {}}})});
  EXPECT_THAT(p.Collectives(), ElementsAre("all_reduce sum f32[4,64] over axes [1] of [2,4]"));
}

TEST(Partition, CollectivesAreNamedAfterTheUsersOperator) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{kX, kY}});
  ir::Value* w = p.Argument({16, 4}, Sharding{{kY, {}}});
  p.b.set_location(p.module->AddLocation({"jit(f)/dot", "train.py", 7, 3}));
  p.Return({p.Constrain(Dot(p.b, x, w, 1, 0, {8, 4}), Sharding{{kX, {}}})});
  p.Partitioned(Backend::kFfi);
  EXPECT_EQ(p.device.collectives[0].location, "train.py:7:3 (jit(f)/dot)");
  for (const ir::Op* op : p.device.module->main()->body->ops) {
    if (op->kind != ir::OpKind::kCustomCall) continue;
    EXPECT_EQ(op->location->ToString(), "train.py:7:3 (jit(f)/dot/all-reduce)");
  }
  EXPECT_THAT(p.Text(Backend::kFfi),
              HasSubstr("op = \"all-reduce(sum f32[4,4] over axes [1] of [2,4])\""));
}

TEST(Partition, WhatXlaPacksTravelsInWholeBytes) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{kX, {}}});
  x->type.element = ElementType::kI4;
  p.Return({p.Constrain(x, Sharding{{{}, {}}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather i8[4,16]")));
  EXPECT_THAT(p.Text(Backend::kFfi), HasSubstr("-> (tensor<8x16xi4>)"));
  EXPECT_THAT(p.Collectives(Backend::kNative), ElementsAre(HasSubstr("all_gather i4[4,16]")));
}

TEST(Partition, BothBackEndsHaveTheSameCollectives) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{kX, kY}});
  p.Return({p.Constrain(x, Sharding{{{}, kX}})});
  const auto ffi = p.Collectives(Backend::kFfi);
  EXPECT_EQ(ffi, p.Collectives(Backend::kNative));
  EXPECT_THAT(ffi, Not(IsEmpty()));
  EXPECT_THAT(p.Text(Backend::kFfi), HasSubstr("shardway.collective"));
  EXPECT_THAT(p.Text(Backend::kNative), Not(HasSubstr("shardway.collective")));
  EXPECT_THAT(p.Text(Backend::kNative), HasSubstr("replica_groups"));
}

TEST(Partition, PlaceIsAParameterOnlyWhereUsed) {
  TestProgram p;
  ir::Value* x = p.Argument({8}, Sharding{{{}}});
  p.Return({p.Constrain(x, Sharding{{kX}})});
  EXPECT_THAT(p.Text(Backend::kFfi), HasSubstr("tensor<2xi32>) -> (tensor<4xf32>)"));
  EXPECT_TRUE(p.device.uses_place);
  EXPECT_THAT(p.Text(Backend::kNative), HasSubstr("stablehlo.partition_id"));
  EXPECT_FALSE(p.device.uses_place);
}

TEST(Partition, UnknownOperatorsRunWholeAndAreSliced) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 4}, Sharding{{kX, {}}});
  ir::AttrDict attributes;
  ir::Set(attributes, "call_target_name", std::string("mystery"));
  ir::Value* y =
      p.b.Create(ir::OpKind::kCustomCall, {&x, 1}, {&x->type, 1}, std::move(attributes))->result();
  p.Return({p.Constrain(y, Sharding{{kX, {}}})});
  EXPECT_THAT(p.Collectives(),
              ElementsAre("all_gather f32[4,4] along dimension 0 over axes [0] of [2,4]"));
}

TEST(Partition, SplatsAreMadeWhereTheyAreUsed) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 4}, Sharding{{kX, {}}});
  ir::Value* two = p.b.Splat(TestProgram::F32({8, 4}), 2);
  p.Return({p.b.Binary(ir::OpKind::kMultiply, x, two)});
  EXPECT_THAT(p.Text(Backend::kFfi), HasSubstr("dense<2.0> : tensor<4x4xf32>"));
  EXPECT_THAT(p.device.collectives, IsEmpty());
}

TEST(Partition, DeadOperatorsAreDropped) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 4}, Sharding{{kX, {}}});
  p.Constrain(x, Sharding{{{}, kX}});  // unused: would be an all-to-all
  p.Return({x});
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

TEST(Partition, CompileTimeProgramsDoNotGrowWithDevices) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{kX, {}}});
  p.Return({p.Constrain(x, Sharding{{{}, {}}})});
  EXPECT_LT(p.Text(Backend::kFfi).size(), 1000u);
}

}  // namespace
}  // namespace shardway::spmd
