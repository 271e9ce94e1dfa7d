#include "shardway/spmd/propagation.h"

#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

TEST(Propagation, GoesForwardAndBackwardThroughElementwise) {
  TestProgram p;
  ir::Value* a = p.Argument({8, 8}, Sharding{{kX, {}}});
  ir::Value* sum = p.b.Binary(ir::OpKind::kAdd, p.b.Unary(ir::OpKind::kTanh, a), a);
  ir::Value* iota = p.b.Iota(TestProgram::F32({8, 8}), 1);
  ir::Value* product = p.b.Binary(ir::OpKind::kMultiply, sum, iota);
  p.Return({p.Constrain(product, Sharding{{kX, kY}})});
  EXPECT_EQ(p.ShardingOf(sum), "[{x}, {y}]");
  EXPECT_EQ(p.ShardingOf(iota), "[{x}, {y}]");
  EXPECT_EQ(p.ShardingOf(a), "[{x}, {}]") << "an annotation is kept";
}

TEST(Propagation, MergesDifferentDimensions) {
  TestProgram p;
  ir::Value* a = p.Argument({8, 8}, Sharding{{kX, {}}});
  ir::Value* c = p.Argument({8, 8}, Sharding{{{}, kY}});
  ir::Value* sum = p.b.Binary(ir::OpKind::kAdd, a, c);
  p.Return({sum});
  EXPECT_EQ(p.ShardingOf(sum), "[{x}, {y}]");
}

TEST(Propagation, OneAxisSplitsOneDimension) {
  TestProgram p;
  ir::Value* a = p.Argument({8, 8}, Sharding{{kX, {}}});
  ir::Value* c = p.Argument({8, 8}, Sharding{{{}, kX}});
  ir::Value* sum = p.b.Binary(ir::OpKind::kAdd, a, c);
  p.Return({sum});
  EXPECT_EQ(p.ShardingOf(sum), "[{x}, {}]");
}

TEST(Propagation, CrossesDotAndLoops) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{kX, {}}});
  ir::Value* w = p.Argument({16, 16}, Sharding{{{}, kY}});
  ir::Value* h = Dot(p.b, x, w, 1, 0, {8, 16});
  ir::Op* loop = p.b.Create(ir::OpKind::kWhile, {&h, 1}, {&h->type, 1});
  ir::Region* condition = p.module->AddRegion(loop);
  p.module->AddArgument(condition, h->type);
  ir::Builder c(p.module.get(), condition);
  ir::Value* yes = c.SplatInt(ir::Type::Scalar(ElementType::kI1), 1);
  c.Return({&yes, 1});
  ir::Region* body = p.module->AddRegion(loop);
  ir::Value* state = p.module->AddArgument(body, h->type);
  ir::Builder in(p.module.get(), body);
  ir::Value* next = in.Unary(ir::OpKind::kTanh, state);
  in.Return({&next, 1});
  p.Return({loop->result()});
  for (const ir::Value* v : std::vector<const ir::Value*>{h, state, next, loop->result()}) {
    EXPECT_EQ(p.ShardingOf(v), "[{x}, {y}]");
  }
}

TEST(Propagation, MoreWaysThanElementsAreNotTaken) {
  TestProgram p;
  ir::Value* a = p.Argument({8}, Sharding{{kY}});
  ir::Value* r = p.b.Reshape(a, std::vector<int64_t>{1, 8});
  ir::Value* s = p.b.Reshape(a, std::vector<int64_t>{8, 1});
  p.Return({r, s});
  EXPECT_EQ(p.ShardingOf(r), "[{}, {y}]");
  EXPECT_EQ(p.ShardingOf(s), "[{y}, {}]");
}

}  // namespace
}  // namespace shardway::spmd
