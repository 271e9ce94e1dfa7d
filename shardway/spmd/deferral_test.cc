#include "shardway/spmd/deferral.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Collectives that are not inside any loop.
int OutsideLoops(const PerDevice& device) {
  int count = 0;
  for (const ir::Op* op : device.module->main()->body->ops) {
    count += op->kind == ir::OpKind::kCustomCall;
  }
  return count;
}

TEST(Deferral, ASumOfPartsIsReducedOnce) {
  TestProgram p;
  const Sharding rows{{kX, {}}}, columns{{{}, kX}}, whole = Sharding::Replicated(2);
  ir::Value* a = p.Argument({64, 64}, columns);
  ir::Value* b = p.Argument({64, 64}, rows);
  ir::Value* c = p.Argument({64, 64}, columns);
  ir::Value* d = p.Argument({64, 64}, rows);
  ir::Value* first = Dot(p.b, a, b, 1, 0, {64, 64});
  ir::Value* second = p.b.Unary(ir::OpKind::kNegate, Dot(p.b, c, d, 1, 0, {64, 64}));
  ir::Value* sum = p.b.Binary(ir::OpKind::kAdd, first, second);
  p.Annotate(sum, whole);
  p.Return({sum});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[64,64]")));
}

TEST(Deferral, WhatIsWantedSplitIsScattered) {
  TestProgram p;
  ir::Value* a = p.Argument({64, 64}, Sharding{{{}, kX}});
  ir::Value* b = p.Argument({64, 64}, Sharding{{kX, {}}});
  ir::Value* r = p.b.Unary(ir::OpKind::kNegate, Dot(p.b, a, b, 1, 0, {64, 64}));
  p.Annotate(r, Sharding{{kX, {}}});
  p.Return({r});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("reduce_scatter sum")));
}

TEST(Deferral, WhatIsNotLinearIsReducedBefore) {
  TestProgram p;
  ir::Value* a = p.Argument({64, 64}, Sharding{{{}, kX}});
  ir::Value* b = p.Argument({64, 64}, Sharding{{kX, {}}});
  ir::Value* c = p.Argument({64, 64}, Sharding::Replicated(2));
  ir::Value* dot = Dot(p.b, a, b, 1, 0, {64, 64});
  ir::Value* sum = p.b.Binary(ir::OpKind::kAdd, dot, c);  // of a part and a whole
  p.Return({sum});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[64,64]")));
  std::vector<ir::OpKind> order;
  for (const ir::Op* op : p.device.module->main()->body->ops) {
    if (op->kind == ir::OpKind::kCustomCall || op->kind == ir::OpKind::kAdd)
      order.push_back(op->kind);
  }
  EXPECT_THAT(order, ElementsAre(ir::OpKind::kCustomCall, ir::OpKind::kAdd));
}

// while (i < 10) { state = next(state, a, b); ++i }; `next` builds the state's successor.
template <typename Next>
ir::Value* Loop(TestProgram& p, ir::Value* state, ir::Value* a, ir::Value* b, const Next& next) {
  const ir::Type i32 = ir::Type::Scalar(ElementType::kI32);
  ir::Value* operands[] = {p.b.SplatInt(i32, 0), state, a, b};
  std::vector<ir::Type> types;
  for (const ir::Value* v : operands) types.push_back(v->type);
  ir::Op* loop = p.b.Create(ir::OpKind::kWhile, operands, types);
  ir::Region* condition = p.module->AddRegion(loop);
  ir::Region* body = p.module->AddRegion(loop);
  for (const ir::Type& type : types) {
    p.module->AddArgument(condition, type);
    p.module->AddArgument(body, type);
  }
  ir::Builder test(p.module.get(), condition);
  ir::Value* less = test.Compare("LT", condition->arguments[0], test.SplatInt(i32, 10));
  test.Return({&less, 1});
  ir::Builder in(p.module.get(), body);
  ir::Value* counter = in.Binary(ir::OpKind::kAdd, body->arguments[0], in.SplatInt(i32, 1));
  ir::Value* after = next(in, body->arguments[1], body->arguments[2], body->arguments[3]);
  in.Return(std::vector<ir::Value*>{counter, after, body->arguments[2], body->arguments[3]});
  return loop->result(1);
}

TEST(Deferral, ALoopSumsPartsAndReducesThemAfterwards) {
  TestProgram p;
  ir::Value* first = p.Argument({64, 64}, Sharding::Replicated(2));
  ir::Value* a = p.Argument({512, 64}, Sharding{{kX, {}}});
  ir::Value* b = p.Argument({512, 64}, Sharding{{kX, {}}});
  auto next = [](ir::Builder& in, ir::Value* state, ir::Value* a, ir::Value* b) {
    return in.Binary(ir::OpKind::kAdd, state, Dot(in, a, b, 0, 0, {64, 64}));
  };
  ir::Value* sum = Loop(p, first, a, b, next);
  p.Annotate(sum, Sharding::Replicated(2));
  p.Return({sum});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[64,64]")));
  EXPECT_EQ(OutsideLoops(p.device), 1);
}

TEST(Deferral, WhatALoopOnlyHandsOnIsGatheredBeforeIt) {
  TestProgram p;
  ir::Value* x = p.Argument({4096, 64}, Sharding{{kX, {}}});
  ir::Value* w = p.Argument({64, 64}, Sharding{{kX, {}}});
  ir::Value* unused = p.Argument({64}, Sharding::Replicated(1));
  auto next = [](ir::Builder& in, ir::Value* state, ir::Value* w, ir::Value*) {
    return Dot(in, state, w, 1, 0, {4096, 64});
  };
  p.Return({Loop(p, x, w, unused, next)});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather f32[32,64]")));
  EXPECT_EQ(OutsideLoops(p.device), 1);
}

}  // namespace
}  // namespace shardway::spmd
