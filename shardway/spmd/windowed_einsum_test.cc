#include "shardway/spmd/windowed_einsum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "shardway/collective/bytes_sent.h"
#include "shardway/ir/verify.h"
#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

const Sharding kRows{{kY, {}}};
const Sharding kColumns{{{}, kY}};

// [m,k] x [k,n] of these shardings.
struct Product : TestProgram {
  Product(std::vector<int64_t> sizes, Sharding lhs, Sharding rhs, Sharding result) {
    ir::Value* x = Argument({sizes[0], sizes[1]}, std::move(lhs));
    ir::Value* w = Argument({sizes[1], sizes[2]}, std::move(rhs));
    Return({Constrain(Dot(b, x, w, 1, 0, {sizes[0], sizes[2]}), std::move(result))});
  }

  std::vector<std::string> With(WindowedEinsum when, Backend backend = Backend::kFfi) {
    options.windowed_einsum = when;
    std::vector<std::string> collectives = Collectives(backend);
    EXPECT_TRUE(ir::Verify(*device.module).ok()) << ir::Verify(*device.module);
    return collectives;
  }
  std::vector<std::string> Always() { return With(WindowedEinsum::kAlways); }
  double Bytes() const {
    double bytes = 0;
    for (const auto& spec : device.collectives) bytes += collective::BytesSent(spec);
    return bytes;
  }
  // Asserts that as many bytes are sent as without windows.
  void ExpectSameBytes() {
    With(WindowedEinsum::kNever);
    const double before = Bytes();
    Always();
    EXPECT_EQ(Bytes(), before);
  }
};

TEST(WindowedEinsum, AGatheredFreeDimensionIsABlockOfTheResultForEachTile) {
  Product p({16, 32, 8}, kRows, kColumns, kColumns);
  EXPECT_THAT(p.With(WindowedEinsum::kNever), ElementsAre(HasSubstr("all_gather f32[4,32]")));
  // Two hops to the right and one to the left.
  const auto hops = p.Always();
  EXPECT_THAT(hops, SizeIs(3));
  EXPECT_THAT(hops, Each(HasSubstr("collective_permute f32[4,32]")));
  EXPECT_THAT(p.Text(Backend::kFfi), HasSubstr("stablehlo.dynamic_update_slice"));
  EXPECT_THAT(p.Text(Backend::kFfi), Not(HasSubstr("stablehlo.while")));
  p.ExpectSameBytes();
}

TEST(WindowedEinsum, AGatheredContractionIsAPartialSumForEachTile) {
  Product p({16, 64, 8}, kRows, kRows, kRows);
  EXPECT_THAT(p.With(WindowedEinsum::kNever), ElementsAre(HasSubstr("all_gather f32[16,8]")));
  const auto hops = p.Always();
  EXPECT_THAT(hops, SizeIs(3));
  EXPECT_THAT(hops, Each(HasSubstr("collective_permute f32[16,8]")));
  const std::string text = p.Text(Backend::kFfi);
  EXPECT_THAT(text, HasSubstr("(tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>"));
  EXPECT_THAT(text, Not(HasSubstr("stablehlo.dynamic_update_slice")));
  p.ExpectSameBytes();
}

TEST(WindowedEinsum, SumsOfBlocksCirculateToWhereTheyAreWanted) {
  Product p({16, 64, 8}, kColumns, kRows, kRows);
  EXPECT_THAT(p.With(WindowedEinsum::kNever), ElementsAre(HasSubstr("reduce_scatter")));
  const auto hops = p.Always();
  EXPECT_THAT(hops, SizeIs(3));
  EXPECT_THAT(hops, Each(HasSubstr("collective_permute f32[4,8]")));
  p.ExpectSameBytes();
}

TEST(WindowedEinsum, TilesBeyondTheEndAreMaskedWhereTheyAreSummed) {
  Product free({18, 32, 8}, kRows, kColumns, kColumns);
  EXPECT_THAT(free.Always(), Each(HasSubstr("collective_permute f32[5,32]")));
  EXPECT_THAT(free.Text(Backend::kFfi), Not(HasSubstr("stablehlo.select")));
  free.ExpectSameBytes();
  Product contracting({16, 62, 8}, kRows, kRows, kRows);
  EXPECT_THAT(contracting.Always(), Each(HasSubstr("collective_permute f32[16,8]")));
  EXPECT_THAT(contracting.Text(Backend::kFfi), HasSubstr("stablehlo.select"));
  contracting.ExpectSameBytes();
}

TEST(WindowedEinsum, TwoDevicesSwapOnce) {
  const Sharding rows{{kX, {}}}, columns{{{}, kX}};
  Product p({16, 32, 8}, rows, columns, columns);
  EXPECT_THAT(p.Always(), ElementsAre(HasSubstr("collective_permute f32[8,32]")));
  p.ExpectSameBytes();
}

TEST(WindowedEinsum, OtherAxesGoTheirOwnWay) {
  Product p({16, 32, 8}, Sharding{{{}, kY}}, Sharding{{kX, {}}}, Sharding{{kX, {}}});
  p.ExpectSameBytes();
  // The ring over y is among devices of the same x.
  Product q({16, 32, 8}, Sharding{{{0, 1, 2}, {}}}, kColumns, Sharding{{kX, kY}});
  EXPECT_THAT(q.Always(), SizeIs(3));
  EXPECT_THAT(collective::DevicePairs(q.device.collectives[0]),
              ElementsAre(std::pair(0, 1), std::pair(1, 2), std::pair(2, 3), std::pair(3, 0),
                          std::pair(4, 5), std::pair(5, 6), std::pair(6, 7), std::pair(7, 4)));
  q.ExpectSameBytes();
}

TEST(WindowedEinsum, BothBackEndsHaveTheSameHops) {
  Product p({16, 32, 8}, kRows, kColumns, kColumns);
  EXPECT_EQ(p.Always(), p.With(WindowedEinsum::kAlways, Backend::kNative));
  const std::string text = p.Text(Backend::kNative);
  EXPECT_THAT(text, HasSubstr("shardway.ring = \"0\""));
  EXPECT_THAT(text, HasSubstr("stablehlo.collective_permute"));
}

TEST(WindowedEinsum, ManyDevicesAreALoop) {
  TestProgram p;
  p.program.mesh = *Mesh::Make(32, std::vector<sharding::Stride>{{32, 1}});
  const AxisList all = p.program.mesh.ToList(p.program.mesh.all());
  ir::Value* x = p.Argument({64, 32}, Sharding{{all, {}}});
  ir::Value* w = p.Argument({32, 64}, Sharding{{{}, all}});
  p.Return({p.Constrain(Dot(p.b, x, w, 1, 0, {64, 64}), Sharding{{{}, all}})});
  p.options.windowed_einsum = WindowedEinsum::kAlways;
  // One hop each way, a loop of 14, and the farthest one.
  EXPECT_THAT(p.Collectives(), SizeIs(5));
  EXPECT_TRUE(ir::Verify(*p.device.module).ok()) << ir::Verify(*p.device.module);
  EXPECT_THAT(p.Text(Backend::kFfi), HasSubstr("stablehlo.while"));
}

TEST(WindowedEinsum, AGatherForSeveralDotsIsOneRing) {
  TestProgram p;
  ir::Value* x = p.Argument({16, 32}, kRows);
  std::vector<ir::Value*> results;
  for (int i = 0; i < 3; ++i) {
    ir::Value* w = p.Argument({32, 8}, kColumns);
    w = p.b.Unary(ir::OpKind::kTanh, w);  // between one dot and the next
    results.push_back(p.Constrain(Dot(p.b, x, w, 1, 0, {16, 8}), kColumns));
  }
  p.Return(results);
  p.options.windowed_einsum = WindowedEinsum::kAlways;
  EXPECT_THAT(p.Collectives(), SizeIs(3));
  EXPECT_TRUE(ir::Verify(*p.device.module).ok()) << ir::Verify(*p.device.module);
}

TEST(WindowedEinsum, DotsThatNeedEachOtherKeepTheirGather) {
  TestProgram p;
  ir::Value* x = p.Argument({16, 16}, kRows);
  ir::Value* w = p.Argument({16, 8}, kColumns);
  ir::Value* h = p.b.Unary(ir::OpKind::kTanh, p.Constrain(Dot(p.b, x, w, 1, 0, {16, 8}), kColumns));
  p.Return({p.Constrain(Dot(p.b, x, h, 1, 0, {16, 8}), kColumns)});
  p.options.windowed_einsum = WindowedEinsum::kAlways;
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather f32[4,16]")));
}

TEST(WindowedEinsum, WhatSeveralDevicesComputeIsSummedInOneOrder) {
  const Sharding whole{{{}, {}}};
  // w goes to all and all get the same product; with tiles in turn each would round differently.
  Product p({16, 64, 8}, whole, Sharding{{kY, {}}}, whole);
  EXPECT_THAT(p.Always(), Each(Not(HasSubstr("collective_permute"))));
  // Distinct over x alone; the ring would be over y.
  Product q({16, 64, 8}, Sharding{{kX, {}}}, Sharding{{kY, {}}}, Sharding{{kX, {}}});
  EXPECT_THAT(q.Always(), Each(Not(HasSubstr("collective_permute"))));
}

TEST(WindowedEinsum, OtherUsesKeepTheGather) {
  TestProgram p;
  ir::Value* x = p.Argument({16, 32}, kRows);
  ir::Value* w = p.Argument({32, 8}, kColumns);
  ir::Value* y = p.Constrain(Dot(p.b, x, w, 1, 0, {16, 8}), kColumns);
  p.Return({y, p.Constrain(p.b.Unary(ir::OpKind::kTanh, p.Constrain(x, Sharding{{{}, {}}})),
                           Sharding{{{}, {}}})});
  p.options.windowed_einsum = WindowedEinsum::kAlways;
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather f32[4,32]")));
}

TEST(WindowedEinsum, PaysWhereSendingRunsBesideEnoughWork) {
  constexpr int64_t kLarge = 16384;
  Product large({kLarge, kLarge, kLarge}, kRows, kColumns, kColumns);
  // One process computes and copies with the same cores.
  EXPECT_THAT(large.With(WindowedEinsum::kAuto, Backend::kFfi),
              ElementsAre(HasSubstr("all_gather")));
  EXPECT_THAT(large.With(WindowedEinsum::kAuto, Backend::kNative),
              Each(HasSubstr("collective_permute")));
  Product small({16, 32, 8}, kRows, kColumns, kColumns);
  EXPECT_THAT(small.With(WindowedEinsum::kAuto, Backend::kNative),
              ElementsAre(HasSubstr("all_gather")));
  // Much to send for little work.
  Product thin({kLarge, kLarge, 8}, kRows, kColumns, kColumns);
  EXPECT_THAT(thin.With(WindowedEinsum::kAuto, Backend::kNative),
              Each(Not(HasSubstr("collective_permute"))));
}

}  // namespace
}  // namespace shardway::spmd
