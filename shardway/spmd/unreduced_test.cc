#include "shardway/spmd/unreduced.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Sharding kRows = {{kX, {}}};
const Sharding kColumns = {{{}, kX}};
const Sharding kWhole = Sharding::Replicated(2);

struct PartsProgram : TestProgram {
  // `v`, which is annotated already, is wanted in parts over x.
  ir::Value* InParts(ir::Value* v) {
    Annotation& annotation = program.annotations[v->id];
    annotation.unreduced = annotation.forbidden = sharding::ToSet(kX);
    return v;
  }
  ir::Value* Argument(Sharding sharding = kWhole) {
    return TestProgram::Argument({64, 64}, std::move(sharding));
  }
  ir::Value* Parts(ir::Value* v) {
    return InParts(Constrain(v, Sharding::Replicated(v->type.rank())));
  }
  std::vector<ir::OpKind> Kinds() {
    Partitioned(Backend::kFfi);
    std::vector<ir::OpKind> kinds;
    for (const ir::Op* op : device.module->main()->body->ops) kinds.push_back(op->kind);
    return kinds;
  }
};

TEST(Unreduced, WhatIsHandedOnKeepsItsParts) {
  PartsProgram p;
  p.Return({p.Parts(p.Parts(p.InParts(p.Argument())))});
  EXPECT_THAT(p.Kinds(), ElementsAre(ir::OpKind::kFuncReturn));
}

TEST(Unreduced, AnArgumentIsSummedAsItIsWanted) {
  PartsProgram p;
  ir::Value* x = p.InParts(p.Argument());
  p.Return({p.Constrain(x, kRows)});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("reduce_scatter sum f32[64,64]")));

  PartsProgram q;
  q.Return({q.b.Unary(ir::OpKind::kTanh, q.InParts(q.Argument()))});
  EXPECT_THAT(q.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[64,64]")));
}

// Whoever needs the sum gets it, whoever wants the parts gets those.
TEST(Unreduced, PartsAndTheirSumLieSideBySide) {
  PartsProgram p;
  ir::Value* x = p.InParts(p.Argument());
  p.Return({p.b.Unary(ir::OpKind::kTanh, x), p.Parts(x), p.b.Unary(ir::OpKind::kExponential, x)});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[64,64]")));
  const ir::Region& body = *p.device.module->main()->body;
  EXPECT_EQ(body.terminator()->operand(1), body.arguments[0]);
}

TEST(Unreduced, AWholeValueIsOnOneDevice) {
  PartsProgram p;
  p.Return({p.Parts(p.Argument())});
  EXPECT_THAT(p.Collectives(), IsEmpty());
  EXPECT_THAT(p.Text(Backend::kFfi), HasSubstr("stablehlo.select"));
}

TEST(Unreduced, ASplitValueStaysWhereItIs) {
  PartsProgram p;
  p.Return({p.Parts(p.Argument(kRows))});
  EXPECT_THAT(p.Collectives(), IsEmpty());
  const std::string text = p.Text(Backend::kFfi);
  EXPECT_THAT(text, HasSubstr("stablehlo.dynamic_update_slice"));
  EXPECT_THAT(text, Not(HasSubstr("stablehlo.select")));
}

// Tiles that are padded: the value is brought together first.
TEST(Unreduced, AnUnevenlySplitValueIsGathered) {
  PartsProgram p;
  p.Return({p.Parts(p.TestProgram::Argument({7, 8}, kRows))});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather")));
  EXPECT_THAT(p.Text(Backend::kFfi), HasSubstr("stablehlo.select"));
}

// However little the operands have, nobody sends anything.
TEST(Unreduced, AProductIsLeftInItsParts) {
  PartsProgram p;
  ir::Value* a = p.TestProgram::Argument({64, 2}, kColumns);
  ir::Value* b = p.TestProgram::Argument({2, 64}, kRows);
  p.Return({p.Parts(Dot(p.b, a, b, 1, 0, {64, 64}))});
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

TEST(Unreduced, AxesThatAreNotWantedInPartsAreSummed) {
  PartsProgram p;
  const AxisList both = {0, 1, 2};
  ir::Value* a = p.TestProgram::Argument({64, 512}, Sharding{{{}, both}});
  ir::Value* b = p.TestProgram::Argument({512, 64}, Sharding{{both, {}}});
  p.Return({p.Parts(Dot(p.b, a, b, 1, 0, {64, 64}))});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[64,64]")));
}

// More than what deferral.h does on parts to save sums.
TEST(Unreduced, LinearOperatorsWorkOnTheParts) {
  PartsProgram p;
  ir::Value* x = p.InParts(p.Argument());
  ir::Value* y = p.InParts(p.Argument());
  ir::Value* whole = p.Argument(kRows);
  const ir::Type i1 = ir::Type::Tensor(ElementType::kI1, std::vector<int64_t>{64, 64});
  ir::Value* scalar_zero = p.b.Splat(ir::Type::Scalar(ElementType::kF32), 0);
  const std::vector<int64_t> two = {2, 2};
  ir::Value* zero = p.b.SplatInt(ir::Type::Scalar(ElementType::kI32), 0);
  ir::Value* starts[] = {zero, zero};
  ir::Value* pair[] = {x, y};
  p.Return({
      p.Parts(p.b.Binary(ir::OpKind::kAdd, x, y)),
      p.Parts(p.b.Binary(ir::OpKind::kMultiply, x, whole)),
      p.Parts(p.b.Slice(x, std::vector<int64_t>{1, 0}, std::vector<int64_t>{9, 64})),
      p.Parts(p.b.Concatenate(pair, 0)),
      p.Parts(p.b.Pad(x, scalar_zero, two, two)),
      p.Parts(p.b.Select(p.b.SplatInt(i1, 1), x, y)),
      p.Parts(p.b.Convert(x, ElementType::kBF16)),
      p.Parts(p.b.BroadcastInDim(y, std::vector<int64_t>{4, 64, 64}, std::vector<int64_t>{1, 2})),
      p.Parts(p.b.DynamicSlice(x, starts, std::vector<int64_t>{8, 8})),
  });
  // Of the factor alone, which is not as the parts are.
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather")));
}

// As jnp.stack is written.
TEST(Unreduced, SoDoSeveralInARow) {
  PartsProgram p;
  ir::Value* x = p.InParts(p.Argument());
  const std::vector<int64_t> row = {1, 64, 64};
  ir::Value* rows[] = {p.b.Reshape(x, row), p.b.Reshape(x, row)};
  p.Return({p.Parts(p.b.Concatenate(rows, 0))});
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

TEST(Unreduced, OtherOperatorsWorkOnTheSum) {
  PartsProgram p;
  ir::Value* x = p.InParts(p.Argument());
  ir::Value* one = p.b.Splat(ir::Type::Scalar(ElementType::kF32), 1);
  const std::vector<int64_t> two = {2, 2};
  p.Return({
      p.Parts(p.b.Unary(ir::OpKind::kTanh, x)),
      p.Parts(p.b.Binary(ir::OpKind::kMultiply, x, x)),
      p.Parts(p.b.Pad(x, one, two, two)),
      p.Parts(p.b.Convert(x, ElementType::kI32)),
      p.Parts(p.b.Binary(ir::OpKind::kAdd, x, p.Argument())),
  });
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[64,64]")));
}

TEST(Unreduced, ALoopCarriesParts) {
  PartsProgram p;
  ir::Value* first = p.Argument();
  ir::Value* a = p.InParts(p.Argument());
  auto next = [&p](ir::Builder& in, ir::Value* state, ir::Value* a, ir::Value*) {
    ir::Value* sum = in.Binary(ir::OpKind::kAdd, state, a);
    ir::Value* parts =
        in.Create(ir::OpKind::kSdyShardingConstraint, {&sum, 1}, {&sum->type, 1})->result();
    p.Annotate(parts, kWhole);
    return p.InParts(parts);
  };
  p.Return({p.Constrain(Loop(p, first, a, a, next), kWhole)});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[64,64]")));
  EXPECT_EQ(OutsideLoops(p.device), 1);
}

TEST(Unreduced, AManualRegionSeesAndReturnsParts) {
  PartsProgram p;
  ir::Value* x = p.InParts(p.Argument());
  const AxisSet manual = sharding::ToSet(kX);
  const auto convert = [&](ir::Value* v, std::string_view target) {
    ir::Op* op = p.b.Create(ir::OpKind::kCustomCall, {&v, 1}, {&v->type, 1});
    ir::Set(op->attributes, "call_target_name", std::string(target));
    p.program.conversions[op] = manual;
    return op->result();
  };
  ir::Value* inside = convert(x, kFullToShard);
  ir::Value* square = p.b.Binary(ir::OpKind::kMultiply, inside, inside);
  ir::Value* outside = convert(square, kShardToFull);
  p.Annotate(outside, kWhole);
  p.InParts(outside);
  p.program.manual.resize(p.module->num_values());
  p.program.manual[inside->id] = p.program.manual[square->id] = manual;
  p.Return({p.Parts(outside)});
  EXPECT_THAT(p.Kinds(), ElementsAre(ir::OpKind::kMultiply, ir::OpKind::kFuncReturn));
}

// The parts of an argument whose devices the user orders otherwise are brought into the mesh's
// order.
TEST(Unreduced, AnotherOrderOfDevicesCountsForParts) {
  PartsProgram p;
  ir::Value* x = p.InParts(p.Argument());
  p.program.annotations[x->id].order =
      std::make_shared<const std::vector<int64_t>>(std::vector<int64_t>{1, 0, 2, 3, 4, 5, 6, 7});
  p.Return({p.Parts(x)});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("permute")));
}

}  // namespace
}  // namespace shardway::spmd
