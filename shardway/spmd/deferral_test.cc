#include "shardway/spmd/deferral.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

// Scaled, a sum is as large as before: what scales it runs on the sum.
TEST(Deferral, NothingWaitsForScalingAlone) {
  TestProgram p;
  ir::Value* a = p.Argument({64, 64}, Sharding{{{}, kX}});
  ir::Value* b = p.Argument({64, 64}, Sharding{{kX, {}}});
  ir::Value* half = p.b.Splat(TestProgram::F32({64, 64}), 0.5);
  ir::Value* r = p.b.Binary(ir::OpKind::kMultiply, half, Dot(p.b, a, b, 1, 0, {64, 64}));
  p.Annotate(r, Sharding::Replicated(2));
  p.Return({r});
  const std::string text = p.Text(Backend::kFfi);
  EXPECT_LT(text.find("all-reduce"), text.find("multiply"));
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

// The other ways to sum up: s - u, c s + u, and s + convert(u).
TEST(Deferral, ALoopMaySubtractScaleAndWiden) {
  using Next = ir::Value* (*)(ir::Builder&, ir::Value*, ir::Value*, ir::Value*);
  const Next forms[] = {
      [](ir::Builder& in, ir::Value* s, ir::Value* a, ir::Value* b) {
        return in.Binary(ir::OpKind::kSubtract, s, Dot(in, a, b, 0, 0, {64, 64}));
      },
      [](ir::Builder& in, ir::Value* s, ir::Value* a, ir::Value* b) {
        ir::Value* scaled = in.Binary(ir::OpKind::kMultiply, in.Splat(s->type, 0.9), s);
        return in.Binary(ir::OpKind::kAdd, Dot(in, a, b, 0, 0, {64, 64}), scaled);
      },
      [](ir::Builder& in, ir::Value* s, ir::Value* a, ir::Value* b) {
        ir::Value* half_a = in.Convert(a, ElementType::kBF16);
        ir::Value* u = Dot(in, half_a, in.Convert(b, ElementType::kBF16), 0, 0, {64, 64});
        return in.Binary(ir::OpKind::kAdd, s, in.Convert(u, ElementType::kF32));
      },
  };
  for (const Next& next : forms) {
    SCOPED_TRACE(&next - forms);
    TestProgram p;
    ir::Value* first = p.Argument({64, 64}, Sharding::Replicated(2));
    ir::Value* a = p.Argument({512, 64}, Sharding{{kX, {}}});
    ir::Value* b = p.Argument({512, 64}, Sharding{{kX, {}}});
    ir::Value* sum = Loop(p, first, a, b, next);
    p.Annotate(sum, Sharding::Replicated(2));
    p.Return({sum});
    EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[64,64]")));
    EXPECT_EQ(OutsideLoops(p.device), 1);
  }
}

// The stack of a loop's results, each a sum: as many bytes at once, and one collective. Where the
// rounds write less than the stack has, each is summed alone.
TEST(Deferral, AStackOfSumsIsSummedAtOnce) {
  for (const int64_t stack : {10, 12}) {
    TestProgram p;
    ir::Value* first = p.Argument({stack, 64, 64}, Sharding::Replicated(3));
    ir::Value* a = p.Argument({512, 64}, Sharding{{kX, {}}});
    ir::Value* b = p.Argument({512, 64}, Sharding{{kX, {}}});
    auto next = [](ir::Builder& in, ir::Value* s, ir::Value* a, ir::Value* b) {
      ir::Value* round = in.Convert(in.region()->arguments[0], ElementType::kF32);
      ir::Value* other =
          in.Binary(ir::OpKind::kMultiply, a, in.BroadcastInDim(round, a->type.dims, {}));
      ir::Value* u = in.BroadcastInDim(Dot(in, other, b, 0, 0, {64, 64}),
                                       std::vector<int64_t>{1, 64, 64}, std::vector<int64_t>{1, 2});
      ir::Value* zero = in.SplatInt(ir::Type::Scalar(ElementType::kI32), 0);
      // Of the loop's own counter, the first argument of its body.
      ir::Value* starts[] = {in.region()->arguments[0], zero, zero};
      return in.DynamicUpdateSlice(s, u, starts);
    };
    ir::Value* all = Loop(p, first, a, b, next);
    p.Annotate(all, Sharding::Replicated(3));
    p.Return({all});
    if (stack == 10) {
      EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[10,64,64]")));
      EXPECT_EQ(OutsideLoops(p.device), 1);
    } else {
      EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[64,64]")));
      EXPECT_EQ(OutsideLoops(p.device), 0);
    }
  }
}

// What JAX writes for PartitionSpec(…, unreduced={'x'}): constraints in between.
TEST(Deferral, ConstraintsHandPartsOn) {
  TestProgram p;
  const Sharding rows{{kX, {}}}, columns{{{}, kX}}, whole = Sharding::Replicated(2);
  ir::Value* sum = nullptr;
  for (int i = 0; i < 2; ++i) {
    ir::Value* dot =
        Dot(p.b, p.Argument({64, 64}, columns), p.Argument({64, 64}, rows), 1, 0, {64, 64});
    ir::Value* here = p.Constrain(dot, whole);
    sum = sum == nullptr ? here : p.b.Binary(ir::OpKind::kAdd, sum, here);
  }
  p.Return({p.Constrain(p.Constrain(sum, whole), rows)});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("reduce_scatter sum f32[64,64]")));
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
