#include "shardway/spmd/island_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/collective/bytes_sent.h"
#include "shardway/spmd/reshard.h"
#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const AxisList kAll = {0, 1, 2};

double SentBy(const PerDevice& device) {
  double sent = 0;
  for (const auto& spec : device.collectives) sent += collective::BytesSent(spec);
  return sent;
}

// A product of [size, 64] and [64, size] that is contracted over `axes`, wanted whole.
void Product(TestProgram& p, int64_t size, const AxisList& axes) {
  p.options.island_steps = IslandSteps::kAlways;
  ir::Value* a = p.Argument({size, 64}, Sharding{{{}, axes}});
  ir::Value* b = p.Argument({64, size}, Sharding{{axes, {}}});
  p.Return({p.Constrain(Dot(p.b, a, b, 1, 0, {size, size}), Sharding{{{}, {}}})});
}

TEST(CrossInSteps, WhatCrossesIslandsIsOnePart) {
  for (const Backend backend : {Backend::kFfi, Backend::kNative}) {
    TestProgram p;
    p.OnIslands({0, 0, 0, 0, 1, 1, 1, 1});
    Product(p, 64, kAll);
    EXPECT_THAT(p.Collectives(backend),
                ElementsAre(HasSubstr("reduce_scatter sum f32[4096] along dimension 0 over axes "
                                      "[1] of [2,4]"),
                            HasSubstr("all_reduce sum f32[1024] over axes [0] of [2,4]"),
                            HasSubstr("all_gather f32[1024] along dimension 0 over axes [1]")));
    EXPECT_DOUBLE_EQ(SentBy(p.device), AllReduceBytes(64 * 64 * 4, 8));
  }
}

TEST(CrossInSteps, ASizeThatDoesNotDivideIsPadded) {
  TestProgram p;
  p.OnIslands({0, 0, 0, 0, 1, 1, 1, 1});
  Product(p, 33, kAll);
  const std::string text = p.Text(Backend::kFfi);
  EXPECT_THAT(text, HasSubstr("(tensor<1092xf32>) -> tensor<273xf32>"));
  EXPECT_THAT(text, HasSubstr("(tensor<1089xf32>) -> tensor<33x33xf32>"));
}

TEST(CrossInSteps, CombinedSumsStayTogether) {
  TestProgram p;
  p.OnIslands({0, 0, 0, 0, 1, 1, 1, 1});
  p.options.island_steps = IslandSteps::kAlways;
  ir::Value* sums[2];
  for (ir::Value*& sum : sums) {
    ir::Value* a = p.Argument({30, 64}, Sharding{{{}, kAll}});
    ir::Value* b = p.Argument({64, 30}, Sharding{{kAll, {}}});
    sum = p.Constrain(Dot(p.b, a, b, 1, 0, {30, 30}), Sharding{{{}, {}}});
  }
  p.Return({sums[0], sums[1]});
  EXPECT_THAT(p.Collectives(Backend::kFfi),
              ElementsAre(HasSubstr("reduce_scatter sum f32[900], f32[900]"),
                          HasSubstr("all_reduce sum f32[225], f32[225]"),
                          HasSubstr("all_gather f32[225], f32[225]")));
  EXPECT_THAT(p.Collectives(Backend::kNative), SizeIs(6));
}

TEST(CrossInSteps, OneCallWhereNothingIsSaved) {
  struct Case {
    int64_t size;
    AxisList axes;
    std::vector<int> islands;
  };
  for (const Case& c :
       {Case{64, kAll, {}}, Case{16, kAll, {0, 0, 0, 0, 1, 1, 1, 1}},
        Case{64, kX, {0, 0, 0, 0, 1, 1, 1, 1}}, Case{64, kY, {0, 0, 0, 0, 1, 1, 1, 1}},
        Case{64, kAll, {0, 1, 2, 3, 4, 5, 6, 7}}}) {
    TestProgram p;
    p.OnIslands(c.islands);
    Product(p, c.size, c.axes);
    p.options.island_steps = IslandSteps::kAuto;
    EXPECT_THAT(p.Collectives(), SizeIs(1));
    EXPECT_THAT(p.Collectives()[0], HasSubstr("all_reduce"));
  }
}

TEST(CrossInSteps, OneCallWhereCrossingCostsNoMore) {
  TestProgram p;
  const topology::LinkPrices one_machine =
      topology::PricesOf({topology::Link{2e-6, 4e9}, std::nullopt, topology::Link{3e-6, 3e9}});
  p.OnIslands({0, 0, 0, 0, 1, 1, 1, 1}, one_machine);
  Product(p, 64, kAll);
  p.options.island_steps = IslandSteps::kAuto;
  EXPECT_THAT(p.Collectives(), SizeIs(1));
  p.options.island_steps = IslandSteps::kAlways;
  EXPECT_THAT(p.Collectives(), SizeIs(3));
  p.OnIslands({0, 0, 0, 0, 1, 1, 1, 1});  // not measured: dearer
  p.options.island_steps = IslandSteps::kAuto;
  EXPECT_THAT(p.Collectives(), SizeIs(3));
  p.options.island_steps = IslandSteps::kNever;
  EXPECT_THAT(p.Collectives(), SizeIs(1));
}

// Four hosts of one island, on a network: the dearer axes are those between hosts.
TEST(CrossInSteps, HostsMayBeFarApartToo) {
  TestProgram p;
  std::vector<topology::Place> places(8);
  for (int d = 0; d < 8; ++d) places[d] = {0, d / 2};
  p.program.mesh.SetPlaces(places, {{8, 8}, {8, 8}});
  Product(p, 64, kAll);
  p.options.island_steps = IslandSteps::kAuto;
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("over axes [1] of [4,2]"),
                                           HasSubstr("all_reduce sum f32[2048] over axes [0]"),
                                           HasSubstr("all_gather")));
}

// What a call costs and what a byte costs are prices of their own.
TEST(CrossInSteps, ThreeCallsCostTheirLatency) {
  for (const double call : {1.0, 1000.0}) {
    TestProgram p;
    p.OnIslands({0, 0, 0, 0, 1, 1, 1, 1}, {{call, 1}, {call, 4}});
    Product(p, 64, kAll);
    p.options.island_steps = IslandSteps::kAuto;
    EXPECT_THAT(p.Collectives(), SizeIs(3)) << call;  // two of the three stay inside
    std::vector<topology::Place> places(8);
    for (int d = 0; d < 8; ++d) places[d] = {d / 4, d};
    p.program.mesh.SetPlaces(places, {{call, 1}, {call, 4}});
    EXPECT_THAT(p.Collectives(), SizeIs(call > 1 ? 1 : 3)) << call;
  }
}

// The minor half of y crosses: parts are of x and of y's major half.
TEST(CrossInSteps, IslandsMayLieAnyWay) {
  TestProgram p;
  p.OnIslands({0, 1, 0, 1, 0, 1, 0, 1});
  Product(p, 64, kAll);
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("over axes [0] of [4,2]"),
                                           HasSubstr("all_reduce sum f32[1024] over axes [1]"),
                                           HasSubstr("all_gather")));
}

TEST(CrossInSteps, GathersCrossWithSingleShards) {
  TestProgram p;
  p.OnIslands({0, 0, 0, 0, 1, 1, 1, 1});
  p.options.island_steps = IslandSteps::kAuto;
  ir::Value* x = p.Argument({64, 4096}, Sharding{{{}, kAll}});
  p.Return({p.Constrain(x, Sharding{{{}, {}}})});
  for (const Backend backend : {Backend::kFfi, Backend::kNative}) {
    EXPECT_THAT(p.Collectives(backend),
                ElementsAre(HasSubstr("all_gather f32[1,64,512] along dimension 0 over axes [0] of "
                                      "[2,4]"),
                            HasSubstr("all_gather f32[2,64,512] along dimension 0 over axes [1]")));
    EXPECT_DOUBLE_EQ(SentBy(p.device), GatherBytes(64 * 4096 * 4, 8));
  }
}

TEST(CrossInSteps, ScatteredSumsCrossWithSingleShards) {
  TestProgram p;
  p.OnIslands({0, 0, 0, 0, 1, 1, 1, 1});
  ir::Value* a = p.Argument({512, 8192}, Sharding{{{}, kAll}});
  ir::Value* b = p.Argument({8192, 512}, Sharding{{kAll, {}}});
  p.Return({p.Constrain(Dot(p.b, a, b, 1, 0, {512, 512}), Sharding{{{}, kAll}})});
  EXPECT_THAT(p.Collectives(),
              ElementsAre(HasSubstr("reduce_scatter sum f32[8,512,64] along dimension 0 over axes "
                                    "[1] of [2,4]"),
                          HasSubstr("reduce_scatter sum f32[2,512,64] along dimension 0 over axes "
                                    "[0] of [2,4]")));
}

TEST(AllReduceCost, IsTheCheaperWay) {
  TestProgram p;
  const AxisSet all = sharding::ToSet(kAll);
  const double bytes = 1 << 20;
  const double near = AllReduceCost(p.program.mesh, bytes, all);
  p.OnIslands({0, 0, 0, 0, 1, 1, 1, 1});
  const double in_steps = AllReduceCost(p.program.mesh, bytes, all);
  EXPECT_GT(in_steps, near);
  EXPECT_LT(in_steps, 2 * near);  // one call: four times as much
}

}  // namespace
}  // namespace shardway::spmd
