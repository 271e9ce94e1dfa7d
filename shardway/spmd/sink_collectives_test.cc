#include "shardway/spmd/sink_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const Sharding kRows{{kY, {}}};
const Sharding kWhole{{{}, {}}};

class Sink : public TestProgram {
 public:
  // Of a value of its own, whole.
  ir::Value* Gathered() {
    ir::Value* v = b.Unary(ir::OpKind::kTanh, Argument({64, 64}, kRows));
    Annotate(v, kRows);
    return Constrain(v, kWhole);
  }
  // if (flag) { yes(v) } else { no(v) }, all of one type.
  template <typename Yes, typename No>
  ir::Value* If(ir::Value* v, const Yes& yes, const No& no) {
    return If(b, Argument({}, Sharding::Replicated(0)), v, yes, no);
  }
  template <typename Yes, typename No>
  ir::Value* If(ir::Builder& in, ir::Value* flag, ir::Value* v, const Yes& yes, const No& no) {
    ir::Value* positive = in.Compare("GT", flag, in.Splat(flag->type, 0));
    ir::Op* branches = in.Create(ir::OpKind::kIf, {&positive, 1}, {&v->type, 1});
    ir::Builder first(module.get(), module->AddRegion(branches));
    first.Return({yes(first, v)});
    ir::Builder second(module.get(), module->AddRegion(branches));
    second.Return({no(second, v)});
    return branches->result();
  }
};

ir::Value* Exp(ir::Builder& b, ir::Value* v) { return b.Unary(ir::OpKind::kExponential, v); }
ir::Value* Zero(ir::Builder& b, ir::Value* v) { return b.Splat(v->type, 0); }

TEST(SinkCollectives, AGatherForOneBranchIsDoneInIt) {
  Sink p;
  p.Return({p.Constrain(p.If(p.Gathered(), Exp, Zero), kWhole)});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather f32[16,64]")));
  EXPECT_EQ(OutsideLoops(p.device), 0);
  EXPECT_EQ(p.Collectives(Backend::kNative), p.Collectives(Backend::kFfi));
}

TEST(SinkCollectives, WhatLiesBetweenGoesAlong) {
  Sink p;
  ir::Value* between = p.b.Unary(ir::OpKind::kNegate, p.Gathered());
  p.Annotate(between, kWhole);
  p.Return({p.Constrain(p.If(between, Zero, Exp), kWhole)});
  EXPECT_THAT(p.Collectives(), SizeIs(1));
  EXPECT_EQ(OutsideLoops(p.device), 0);
  const std::string text = p.Text(Backend::kFfi);
  EXPECT_LT(text.find("stablehlo.if"), text.find("negate"));
}

TEST(SinkCollectives, WhatBothBranchesTakeStays) {
  Sink p;
  p.Return({p.Constrain(p.If(p.Gathered(), Exp, Exp), kWhole)});
  EXPECT_THAT(p.Collectives(), SizeIs(1));
  EXPECT_EQ(OutsideLoops(p.device), 1);
}

TEST(SinkCollectives, WhatIsTakenBesideTheBranchStays) {
  Sink p;
  ir::Value* v = p.Gathered();
  p.Return({p.Constrain(p.If(v, Exp, Zero), kWhole), v});
  EXPECT_THAT(p.Collectives(), SizeIs(1));
  EXPECT_EQ(OutsideLoops(p.device), 1);
}

// Each of two branches has one of its own: only one of them is ever sent.
TEST(SinkCollectives, EveryBranchHasItsOwn) {
  Sink p;
  ir::Value* other = p.Gathered();
  ir::Value* v = p.Gathered();
  const auto negate = [&](ir::Builder& b, ir::Value*) {
    return b.Unary(ir::OpKind::kNegate, other);
  };
  p.Return({p.Constrain(p.If(v, Exp, negate), kWhole)});
  EXPECT_THAT(p.Collectives(), SizeIs(2));
  EXPECT_EQ(OutsideLoops(p.device), 0);
}

TEST(SinkCollectives, BranchesInBranches) {
  Sink p;
  ir::Value* flag = p.Argument({}, Sharding::Replicated(0));
  const auto inner = [&](ir::Builder& in, ir::Value* v) { return p.If(in, flag, v, Exp, Zero); };
  p.Return({p.Constrain(p.If(p.Gathered(), inner, Zero), kWhole)});
  EXPECT_THAT(p.Collectives(), SizeIs(1));
  const std::string text = p.Text(Backend::kFfi);
  const size_t outer = text.find("stablehlo.if");
  EXPECT_LT(text.find("stablehlo.if", outer + 1), text.find("shardway.collective"));
}

// A replica may go another way than the next.
TEST(SinkCollectives, NotWhereDevicesMayTakeDifferentBranches) {
  Sink p;
  p.program.num_replicas = 2;
  p.Return({p.Constrain(p.If(p.Gathered(), Exp, Zero), kWhole)});
  EXPECT_THAT(p.Collectives(), SizeIs(1));
  EXPECT_EQ(OutsideLoops(p.device), 1);
}

}  // namespace
}  // namespace shardway::spmd
