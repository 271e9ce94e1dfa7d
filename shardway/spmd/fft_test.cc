#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

ir::Value* Transform(TestProgram& p, const char* kind, ir::Value* x, std::vector<int64_t> lengths,
                     const ir::Type& type) {
  ir::AttrDict attributes;
  ir::Set(attributes, "fft_type", ir::EnumAttr{.kind = "fft_type", .value = kind});
  ir::Set(attributes, "fft_length", std::move(lengths));
  return p.b.Create(ir::OpKind::kFft, {&x, 1}, {&type, 1}, std::move(attributes))->result();
}

// Of the last `dims` dimensions.
ir::Value* Fft(TestProgram& p, ir::Value* x, int dims = 1) {
  return Transform(p, "FFT", x, {x->type.dims.end() - dims, x->type.dims.end()}, x->type);
}

ir::Value* Complex(TestProgram& p, std::vector<int64_t> dims, Sharding sharding) {
  ir::Value* v = p.module->AddArgument(p.main->body, ir::Type::Tensor(ElementType::kC64, dims));
  p.main->arg_attrs.emplace_back();
  p.Annotate(v, std::move(sharding));
  return v;
}

TEST(Fft, OnOtherDimensionsSendsNothing) {
  TestProgram p;
  ir::Value* x = Complex(p, {30, 64}, Sharding{{kY, {}}});
  p.Return({Fft(p, x)});
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

TEST(Fft, AlongASplitDimensionMovesTheSplitToAnother) {
  TestProgram p;
  ir::Value* x = Complex(p, {256, 512}, Sharding{{{}, kY}});
  p.Return({p.Constrain(Fft(p, x), Sharding{{{}, kY}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_to_all complex<f32>[256,128]"),
                                           HasSubstr("all_to_all complex<f32>[64,512]")));
}

// The rows are transformed where they are; then the columns come together, and stay where they are
// wanted so.
TEST(Fft, OverTwoDimensionsIsOneOverEach) {
  for (const bool back : {true, false}) {
    TestProgram p;
    ir::Value* x = Complex(p, {256, 512}, Sharding{{kY, {}}});
    const Sharding wanted = back ? Sharding{{kY, {}}} : Sharding{{{}, kY}};
    p.Return({p.Constrain(Fft(p, x, 2), wanted)});
    const auto sent = p.Collectives();
    ASSERT_EQ(sent.size(), back ? 2 : 1);
    EXPECT_THAT(sent[0], HasSubstr("all_to_all complex<f32>[64,512]"));
  }
}

TEST(Fft, OfAVectorTakesFourSteps) {
  TestProgram p;
  ir::Value* x = Complex(p, {1 << 16}, Sharding{{kY}});
  p.Return({p.Constrain(Fft(p, x), Sharding{{kY}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_to_all complex<f32>[16384,1]"),
                                           HasSubstr("all_to_all complex<f32>[4096,4]"),
                                           HasSubstr("all_to_all complex<f32>[16384,1]")));
}

// Half the bytes of complex ones, the mirrored part, and the edges of tiles of one element more.
TEST(Fft, OfARealVectorTakesFourStepsOfPairs) {
  const int64_t size = 1 << 18;
  const Sharding all{{{0, 1, 2}}};
  for (const bool inverse : {false, true}) {
    TestProgram p;
    const ir::Type spectrum = ir::Type::Tensor(ElementType::kC64, {size / 2 + 1});
    ir::Value* x = inverse ? Complex(p, {size / 2 + 1}, all) : p.Argument({size}, all);
    ir::Value* result = inverse ? Transform(p, "IRFFT", x, {size}, TestProgram::F32({size}))
                                : Transform(p, "RFFT", x, {size}, spectrum);
    p.Return({p.Constrain(result, all)});
    const auto sent = p.Collectives();
    EXPECT_EQ(std::count_if(sent.begin(), sent.end(),
                            [](const std::string& s) { return s.starts_with("all_to_all"); }),
              3);
    EXPECT_THAT(sent, Contains(HasSubstr("all_to_all complex<f32>[16384,1]")));
    EXPECT_THAT(sent, Not(Contains(HasSubstr("all_gather"))));
    // What travels besides: the mirrored tile, and no more than a tile of edges.
    EXPECT_THAT(sent, Contains(HasSubstr("permute complex<f32>[1638")));
  }
}

// A length that the parts do not divide twice; a vector so short that three collectives cost more.
TEST(Fft, OfAnyOtherVectorIsGathered) {
  for (const int64_t size : {65528, 64}) {
    TestProgram p;
    ir::Value* x = Complex(p, {size}, Sharding{{kY}});
    p.Return({p.Constrain(Fft(p, x), Sharding{{kY}})});
    EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather")));
  }
}

}  // namespace
}  // namespace shardway::spmd
