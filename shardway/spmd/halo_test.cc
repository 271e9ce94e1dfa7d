#include "shardway/spmd/halo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "shardway/spmd/concatenate.h"
#include "shardway/spmd/part_values.h"
#include "shardway/spmd/test_program.h"
#include "shardway/spmd/window_dim.h"

namespace shardway::spmd {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Halo, AWideWindowTakesOnlyItsEdges) {
  // Windows of 3 with one of padding: an element from either side.
  const LocalWindow w = PlanWindow({.size = 16, .result = 16, .window = 3, .low = 1}, /*parts=*/4);
  EXPECT_EQ(w.halo.width, 6);
  EXPECT_EQ(w.halo.sent(), 2);
  EXPECT_EQ(w.halo.permutes(), 2);
  EXPECT_THAT(w.phases, IsEmpty());
  EXPECT_EQ(w.low, 0);
  EXPECT_EQ(w.high, 0);
}

TEST(Halo, WindowsWiderThanATileTakeSeveralHops) {
  const LocalWindow w = PlanWindow({.size = 16, .result = 16, .window = 7, .low = 6}, /*parts=*/4);
  EXPECT_EQ(w.halo.sent(), 6);
  EXPECT_EQ(w.halo.permutes(), 2);
}

TEST(Halo, BetweenTwoPartsOnePermuteServesBothSides) {
  const LocalWindow w = PlanWindow({.size = 16, .result = 16, .window = 3, .low = 1}, 2);
  EXPECT_EQ(w.halo.sent(), 1);
  EXPECT_EQ(w.halo.permutes(), 1);
}

TEST(Halo, StridesThatDivideTheTileMoveNothing) {
  EXPECT_EQ(PlanWindow({.size = 16, .result = 8, .stride = 2}, 4).halo.sent(), 0);
  EXPECT_EQ(PlanWindow({.size = 16, .result = 8, .window = 2, .stride = 2}, 4).halo.sent(), 0);
}

TEST(Halo, HolesThatTilesDoNotDivideHavePhases) {
  // 5 elements, one hole between each two: 9 results in tiles of 3.
  const LocalWindow w = PlanWindow({.size = 5, .result = 9, .base_dilation = 2}, 3);
  EXPECT_THAT(w.phases, ElementsAre(0, 1, 0));
  EXPECT_EQ(w.extent, 3);
}

TEST(Halo, WindowsOverTooManyTilesAreNotPlanned) {
  // The plan of a window over everything would grow with the square of the parts.
  const LocalWindow w =
      PlanWindow({.size = 4096, .result = 4096, .window = 4095, .low = 2048}, /*parts=*/1024);
  EXPECT_TRUE(w.halo.too_wide);
  EXPECT_EQ(w.halo.traffic(1).bytes, std::numeric_limits<double>::infinity());
}

TEST(Halo, PaddingNeverTravels) {
  // 5 over 4 in tiles of 2: the last part has nothing.
  const LocalWindow w = PlanWindow({.size = 5, .result = 5, .window = 3, .low = 1}, 4);
  for (const HaloRound& round : w.halo.rounds) {
    for (const HaloMove& move : round.moves) EXPECT_LE(move.from * 2 + move.start + move.length, 5);
  }
}

TEST(Halo, NumbersOfPartsAreLinesWhereTheyCanBe) {
  TestProgram p;
  ir::Value* x = p.Argument({8}, Sharding{{kY}});
  p.Return({x});
  Emitter e(p.module.get(), p.main->body, &p.program.mesh, 1, Backend::kFfi);
  EXPECT_EQ(NumberOfPart(e, kY, {3, 3, std::nullopt, 3})->def->kind, ir::OpKind::kConstant);
  EXPECT_EQ(NumberOfPart(e, kY, {1, 3, 5, 7})->def->kind, ir::OpKind::kAdd);
  EXPECT_EQ(NumberOfPart(e, kY, {1, 0, 0, 0})->def->kind, ir::OpKind::kClamp);
  EXPECT_EQ(NumberOfPart(e, kY, {1, 0, 1, 0})->def->kind, ir::OpKind::kReshape);
}

// ---- what the operators send ----

class Shift : public TestProgram {
 public:
  ir::Value* Reverse(ir::Value* v, int64_t dim) {
    ir::AttrDict attributes;
    ir::Set(attributes, "dimensions", std::vector<int64_t>{dim});
    return b.Create(ir::OpKind::kReverse, {v}, {v->type}, std::move(attributes))->result();
  }
  // Of `v`, constrained to be split over y; the same list for both back ends.
  std::vector<std::string> Sent(ir::Value* v) {
    Return({Constrain(v, Sharding{{kY, {}}})});
    auto ffi = Collectives(Backend::kFfi);
    EXPECT_EQ(ffi, Collectives(Backend::kNative));
    EXPECT_EQ(Text(Backend::kNative).find("all_gather"), std::string::npos);
    return ffi;
  }
};

TEST(Slice, ShiftsItsTilesByTheirEdge) {
  Shift p;
  ir::Value* x = p.Argument({16, 4}, Sharding{{kY, {}}});
  EXPECT_THAT(p.Sent(p.b.Slice(x, {1, 0}, {16, 4})),
              ElementsAre(HasSubstr("collective_permute f32[1,4] shift -1 over axes [1]")));
  EXPECT_THAT(p.Text(Backend::kNative), HasSubstr("stablehlo.collective_permute"));
}

TEST(Slice, HalfOfATensorSpreadsOverAllParts) {
  Shift p;
  ir::Value* x = p.Argument({16, 4}, Sharding{{kY, {}}});
  EXPECT_THAT(p.Sent(p.b.Slice(x, {0, 0}, {8, 4})),
              ElementsAre(HasSubstr("f32[2,4]"), HasSubstr("f32[2,4]")));
}

TEST(Pad, SendsWhatMovesOverAnEdge) {
  Shift p;
  ir::Value* x = p.Argument({15, 4}, Sharding{{kY, {}}});
  ir::Value* zero = p.b.Splat(ir::Type::Scalar(ElementType::kF32), 0);
  EXPECT_THAT(p.Sent(p.b.Pad(x, zero, {1, 0}, {0, 0})),
              ElementsAre(HasSubstr("collective_permute f32[1,4] shift 1 over axes [1]")));
}

TEST(Concatenate, GivesEveryPartItsStretch) {
  Shift p;
  ir::Value* x = p.Argument({15, 4}, Sharding{{kY, {}}});
  ir::Value* first = p.Argument({1, 4}, Sharding{{{}, {}}});
  EXPECT_THAT(p.Sent(p.b.Concatenate({first, x}, 0)),
              ElementsAre(HasSubstr("collective_permute f32[1,4] shift 1 over axes [1]")));
}

TEST(Concatenate, TwoTensorsTravelInTheSameRounds) {
  Shift p;
  ir::Value* x = p.Argument({16, 4}, Sharding{{kY, {}}});
  ir::Value* y = p.Argument({16, 4}, Sharding{{kY, {}}});
  EXPECT_THAT(p.Sent(p.b.Concatenate({x, y}, 0)),
              ElementsAre(HasSubstr("f32[4,4]"), HasSubstr("f32[4,4]")));
}

// A tensor and a few of its own rows: what moves the tensor's tiles brings them along.
TEST(Concatenate, OfATensorAndSomeOfItselfIsOneRearrangement) {
  Shift p;
  ir::Value* x = p.Argument({14, 4}, Sharding{{kY, {}}});
  ir::Value* wrapped = p.b.Concatenate({x, p.b.Slice(x, {0, 0}, {2, 4})}, 0);
  SeeThroughSlices(*wrapped->def);
  EXPECT_EQ(wrapped->def->operand(1), x);
  EXPECT_THAT(p.Sent(wrapped),
              ElementsAre(HasSubstr("collective_permute f32[2,4] shift 3 over axes [1]")));
}

// A few rows of a tensor that is not there itself.
TEST(Concatenate, OfFewRowsTakesThemFirst) {
  Shift p;
  ir::Value* x = p.Argument({64, 4}, Sharding{{kY, {}}});
  ir::Value* y = p.Argument({14, 4}, Sharding{{kY, {}}});
  ir::Value* few = p.b.Slice(x, {0, 0}, {2, 4});
  ir::Value* both = p.b.Concatenate({y, few}, 0);
  SeeThroughSlices(*both->def);
  EXPECT_EQ(both->def->operand(1), few);
}

TEST(Reverse, IsOnePermuteWhereTilesAreEven) {
  Shift p;
  ir::Value* x = p.Argument({16, 4}, Sharding{{kY, {}}});
  EXPECT_THAT(p.Sent(p.Reverse(x, 0)),
              ElementsAre(HasSubstr("{0→3, 1→2, 2→1, 3→0} over axes [1]")));
}

// A part that has a stretch itself gets it in the round of the others: its tile is not needed
// after.
TEST(Reverse, WhatAPartKeepsGoesWithTheRest) {
  Shift p;
  ir::Value* x = p.Argument({15, 4}, Sharding{{kY, {}}});
  EXPECT_THAT(p.Sent(p.Reverse(x, 0)),
              ElementsAre(HasSubstr("{0→3, 1→2, 2→1, 3→0}"), HasSubstr("{0→2, 1→1, 2→0}")));
  EXPECT_THAT(p.Text(Backend::kFfi), Not(HasSubstr("select")));
}

// Of the elements between two that are taken nothing is put together.
TEST(Slice, ThinsOutBeforeItJoins) {
  Shift p;
  ir::Value* x = p.Argument({32, 4}, Sharding{{kY, {}}});
  EXPECT_THAT(p.Sent(p.b.Slice(x, {2, 0}, {32, 4}, {2, 1})),
              ElementsAre(HasSubstr("f32[1,4] shift -1")));
  EXPECT_THAT(p.Text(Backend::kFfi),
              HasSubstr("(tensor<3x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>"));
}

// ---- of tensors that every device holds whole ----

TEST(CutWhole, APartOfASliceIsASlice) {
  Shift p;
  ir::Value* x = p.Argument({16, 4}, Sharding{{{}, {}}});
  EXPECT_THAT(p.Sent(p.b.Slice(x, {3, 0}, {15, 4})), IsEmpty());
  EXPECT_THAT(p.Text(Backend::kFfi), HasSubstr("dynamic_slice"));
}

TEST(CutWhole, APartOfAPadIsASliceOfThePad) {
  Shift p;
  ir::Value* x = p.Argument({15, 4}, Sharding{{{}, {}}});
  ir::Value* one = p.b.Splat(ir::Type::Scalar(ElementType::kF32), 1);
  EXPECT_THAT(p.Sent(p.b.Pad(x, one, {2, 0}, {3, 0})), IsEmpty());
  // What lies beyond the end is padded, not masked.
  EXPECT_THAT(p.Text(Backend::kFfi), AllOf(HasSubstr("dynamic_slice"), Not(HasSubstr("select"))));
}

TEST(CutWhole, AReversedPartComesFromTheOtherEnd) {
  Shift p;
  ir::Value* x = p.Argument({16, 4}, Sharding{{{}, {}}});
  EXPECT_THAT(p.Sent(p.Reverse(x, 0)), IsEmpty());
  EXPECT_THAT(p.Text(Backend::kFfi), HasSubstr("(tensor<4x4xf32>) -> tensor<4x4xf32>"));
}

// Of two operands one is split: only its tiles travel.
TEST(CutWhole, OnlyTilesOfSplitOperandsTravel) {
  Shift p;
  ir::Value* x = p.Argument({4, 4}, Sharding{{kY, {}}});
  ir::Value* y = p.Argument({12, 4}, Sharding{{{}, {}}});
  EXPECT_THAT(p.Sent(p.b.Concatenate({x, y}, 0)), Each(HasSubstr("f32[1,4]")));
}

// The operand has another split, and whole it would have to be gathered first.
TEST(CutWhole, NothingIsGatheredToBeCut) {
  Shift p;
  ir::Value* x = p.Argument({16, 64}, Sharding{{{}, kY}});
  ir::Value* zero = p.b.Splat(ir::Type::Scalar(ElementType::kF32), 0);
  EXPECT_THAT(p.Sent(p.b.Pad(x, zero, {1, 0}, {1, 0})), ElementsAre(HasSubstr("all_to_all")));
}

TEST(Slice, SendsNothingWhereTilesStay) {
  Shift p;
  ir::Value* x = p.Argument({16, 4}, Sharding{{kY, {}}});
  EXPECT_THAT(p.Sent(p.b.Slice(x, {0, 0}, {16, 4}, {2, 1})), IsEmpty());
  EXPECT_THAT(p.Text(Backend::kFfi), Not(HasSubstr("dynamic_slice")));
}

}  // namespace
}  // namespace shardway::spmd
