#include "shardway/spmd/hoist_collectives.h"

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

// The sum of all rows of `v`, over x where it is split: an all-reduce.
ir::Value* SumOfRows(TestProgram& p, ir::Builder& b, ir::Value* v) {
  ir::Value* operands[] = {v, b.Splat(ir::Type::Scalar(ElementType::kF32), 0)};
  ir::AttrDict attributes;
  ir::Set(attributes, "dimensions", std::vector<int64_t>{0});
  const ir::Type type = TestProgram::F32({v->type.dims[1]});
  ir::Op* op = b.Create(ir::OpKind::kReduce, operands, {&type, 1}, std::move(attributes));
  BuildReducer(p.module.get(), p.module->AddRegion(op), collective::Reduction::kSum,
               ElementType::kF32);
  return op->result();
}

ir::Value* ToRows(ir::Builder& b, ir::Value* row, int64_t rows) {
  return b.BroadcastInDim(row, std::vector<int64_t>{rows, row->type.dims[0]},
                          std::vector<int64_t>{1});
}

TEST(HoistCollectives, WhatIsMadeOfInvariantsLeavesTheLoopWithWhatItIsMadeOf) {
  TestProgram p;
  ir::Value* state = p.Argument({64, 64}, kRows);
  ir::Value* a = p.Argument({64, 64}, kRows);
  auto next = [&](ir::Builder& in, ir::Value* state, ir::Value* a, ir::Value*) {
    ir::Value* sum = SumOfRows(p, in, in.Unary(ir::OpKind::kTanh, a));
    return in.Binary(ir::OpKind::kMultiply, state, ToRows(in, sum, 64));
  };
  p.Return({Loop(p, state, a, a, next)});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[64]")));
  EXPECT_EQ(OutsideLoops(p.device), 1);
  for (const ir::Op* op : p.device.module->main()->body->ops) {
    if (op->kind != ir::OpKind::kWhile) continue;
    for (const ir::Op* inner : op->regions[1]->ops) EXPECT_NE(inner->kind, ir::OpKind::kTanh);
  }
}

TEST(HoistCollectives, WhatChangesStays) {
  TestProgram p;
  ir::Value* state = p.Argument({64, 64}, kRows);
  ir::Value* a = p.Argument({64, 64}, kRows);
  auto next = [&](ir::Builder& in, ir::Value* state, ir::Value* a, ir::Value*) {
    ir::Value* sum = SumOfRows(p, in, in.Binary(ir::OpKind::kAdd, a, state));
    return in.Binary(ir::OpKind::kMultiply, state, ToRows(in, sum, 64));
  };
  p.Return({Loop(p, state, a, a, next)});
  EXPECT_THAT(p.Collectives(), SizeIs(1));
  EXPECT_EQ(OutsideLoops(p.device), 0);
}

TEST(HoistCollectives, LeavesNestsOfLoops) {
  TestProgram p;
  ir::Value* state = p.Argument({64, 64}, kRows);
  ir::Value* a = p.Argument({64, 64}, kRows);
  auto inner = [&](ir::Builder& in, ir::Value* state, ir::Value* a, ir::Value*) {
    ir::Value* sum = SumOfRows(p, in, in.Unary(ir::OpKind::kTanh, a));
    return in.Binary(ir::OpKind::kMultiply, state, ToRows(in, sum, 64));
  };
  auto outer = [&](ir::Builder& in, ir::Value* state, ir::Value* a, ir::Value* b) {
    ir::Region* before = p.b.region();
    p.b.set_region(in.region());
    ir::Value* after = Loop(p, state, a, b, inner);
    p.b.set_region(before);
    return after;
  };
  p.Return({Loop(p, state, a, a, outer)});
  EXPECT_THAT(p.Collectives(), SizeIs(1));
  EXPECT_EQ(OutsideLoops(p.device), 1);
}

// if (sum of state > 0) { state * sum(a) } else { state }: the sum of a leaves branch and loop.
TEST(HoistCollectives, LeavesBranchesInLoops) {
  TestProgram p;
  ir::Value* state = p.Argument({64, 64}, kRows);
  ir::Value* a = p.Argument({64, 64}, kRows);
  ir::Value* flag = p.Argument({}, Sharding::Replicated(0));
  auto next = [&](ir::Builder& in, ir::Value* state, ir::Value* a, ir::Value* flag) {
    ir::Value* zero = in.Splat(flag->type, 0);
    ir::Value* positive = in.Compare("GT", flag, zero);
    ir::Op* branches = in.Create(ir::OpKind::kIf, {&positive, 1}, {&state->type, 1});
    ir::Builder yes(p.module.get(), p.module->AddRegion(branches));
    ir::Value* product =
        yes.Binary(ir::OpKind::kMultiply, state,
                   ToRows(yes, SumOfRows(p, yes, yes.Unary(ir::OpKind::kTanh, a)), 64));
    yes.Return({&product, 1});
    ir::Builder no(p.module.get(), p.module->AddRegion(branches));
    no.Return({&state, 1});
    return branches->result();
  };
  p.Return({Loop(p, state, a, flag, next)});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[64]")));
  EXPECT_EQ(OutsideLoops(p.device), 1);
}

// A round sends 8 KiB; the whole array of 16 KiB is kept when more than two rounds need it.
TEST(HoistCollectives, StaysWhereItSavesLessThanItKeeps) {
  auto outside = [](int rounds) {
    TestProgram p;
    ir::Value* state = p.Argument({64, 64}, kWhole);
    ir::Value* a = p.Argument({64, 64}, kRows);
    auto next = [&](ir::Builder& in, ir::Value* state, ir::Value* a, ir::Value*) {
      ir::Value* t = in.Unary(ir::OpKind::kTanh, a);
      ir::Value* whole =
          in.Create(ir::OpKind::kSdyShardingConstraint, {&t, 1}, {&t->type, 1})->result();
      p.Annotate(t, kRows);
      p.Annotate(whole, kWhole);
      return in.Binary(ir::OpKind::kMultiply, state, whole);
    };
    p.Return({Loop(p, state, a, a, next, rounds)});
    EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather f32[32,64]")));
    return OutsideLoops(p.device);
  };
  EXPECT_EQ(outside(2), 0);
  EXPECT_EQ(outside(10), 1);
}

}  // namespace
}  // namespace shardway::spmd
