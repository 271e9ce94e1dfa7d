#include "shardway/comm/reduce.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardway/comm/float_mode.h"

namespace shardway::comm {
namespace {

using collective::Reduction;
using ::testing::ElementsAre;

template <typename T>
std::vector<T> Combine(ElementType type, Reduction reduction,
                       const std::vector<std::vector<T>>& in) {
  std::vector<const char*> sources;
  for (const auto& one : in) sources.push_back(reinterpret_cast<const char*>(one.data()));
  std::vector<T> out(in[0].size());
  ReduceFunction reduce = FindReduce(type, reduction);
  EXPECT_NE(reduce, nullptr);
  reduce(sources, static_cast<int64_t>(out.size()), reinterpret_cast<char*>(out.data()));
  return out;
}

TEST(ReduceTest, SumIsInTheOrderGiven) {
  // 1e8 swallows a single 1, not two of them together.
  EXPECT_THAT(Combine<float>(ElementType::kF32, Reduction::kSum, {{1e8f}, {3}, {3}, {-1e8f}}),
              ElementsAre(((1e8f + 3) + 3) - 1e8f));
  EXPECT_THAT(Combine<float>(ElementType::kF32, Reduction::kSum, {{3}, {3}, {1e8f}, {-1e8f}}),
              ElementsAre(((3.0f + 3) + 1e8f) - 1e8f));
}

TEST(ReduceTest, ManyElementsAndSources) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (size_t count : {1, 15, 511, 512, 513, 5000}) {
    std::vector<std::vector<double>> in(5, std::vector<double>(count));
    for (auto& one : in) {
      for (double& x : one) x = static_cast<double>(random()) - 2e9;
    }
    std::vector<double> expected = in[0];
    for (size_t s = 1; s < in.size(); ++s) {
      for (size_t i = 0; i < count; ++i) expected[i] *= in[s][i];
    }
    EXPECT_EQ(Combine<double>(ElementType::kF64, Reduction::kProduct, in), expected);
  }
}

TEST(ReduceTest, NarrowFloatsAreRoundedOnce) {
  // 256 + 1 is not a bf16; 256 + 1 + 1 is, when the sum is kept in float.
  const uint16_t v256 = 0x4380, v1 = 0x3f80, v258 = 0x4381;
  EXPECT_THAT(Combine<uint16_t>(ElementType::kBF16, Reduction::kSum, {{v256}, {v1}, {v1}}),
              ElementsAre(v258));
  // f16: 2048 + 1 + 1 = 2050.
  EXPECT_THAT(Combine<uint16_t>(ElementType::kF16, Reduction::kSum, {{0x6800}, {0x3c00}, {0x3c00}}),
              ElementsAre(0x6801));
  // f16 subnormals are kept: 2^-24 + 2^-24.
  EXPECT_THAT(Combine<uint16_t>(ElementType::kF16, Reduction::kSum, {{1}, {1}}), ElementsAre(2));
  // f8E4M3FN overflows to NaN, f4E2M1FN saturates at 6.
  EXPECT_THAT(Combine<uint8_t>(ElementType::kF8E4M3FN, Reduction::kSum, {{0x7e}, {0x7e}}),
              ElementsAre(0x7f));
  EXPECT_THAT(Combine<uint8_t>(ElementType::kF4E2M1FN, Reduction::kProduct, {{7}, {7}}),
              ElementsAre(7));
  EXPECT_THAT(Combine<uint8_t>(ElementType::kF8E8M0FNU, Reduction::kSum, {{0}, {0}}),
              ElementsAre(1));
}

TEST(ReduceTest, DenormalsAreFlushedOnAnyThread) {
  const float smallest = std::numeric_limits<float>::min();
  const std::vector<float> out = Combine<float>(ElementType::kF32, Reduction::kSum,
                                                {{smallest / 2, smallest}, {0, -smallest / 2}});
  EXPECT_THAT(out, ElementsAre(0, smallest));
  volatile float half = smallest;  // this thread's own mode is as before
  half = half / 2;
  EXPECT_NE(half, 0);
}

TEST(ReduceTest, ExtremesOfFloats) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  auto out = Combine<float>(ElementType::kF32, Reduction::kMax,
                            {{1, nan, 1, -0.0f, 0.0f, -inf}, {2, 1, nan, 0.0f, -0.0f, -5}});
  EXPECT_EQ(out[0], 2);
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_FALSE(std::signbit(out[3]));
  EXPECT_FALSE(std::signbit(out[4]));
  EXPECT_EQ(out[5], -5);
  out = Combine<float>(ElementType::kF32, Reduction::kMin,
                       {{1, nan, 1, -0.0f, 0.0f}, {2, 1, nan, 0.0f, -0.0f}});
  EXPECT_EQ(out[0], 1);
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_TRUE(std::signbit(out[3]));
  EXPECT_TRUE(std::signbit(out[4]));
}

TEST(ReduceTest, IntegersWrapAndCompareBySign) {
  EXPECT_THAT(Combine<int8_t>(ElementType::kI8, Reduction::kSum, {{100, -100}, {100, -100}}),
              ElementsAre(-56, 56));
  EXPECT_THAT(Combine<int16_t>(ElementType::kI16, Reduction::kProduct, {{-32768}, {-32768}}),
              ElementsAre(0));
  EXPECT_THAT(Combine<uint16_t>(ElementType::kUI16, Reduction::kProduct, {{65535}, {65535}}),
              ElementsAre(1));
  EXPECT_THAT(Combine<int64_t>(ElementType::kI64, Reduction::kMin, {{-1, 5}, {1, 4}}),
              ElementsAre(-1, 4));
  EXPECT_THAT(Combine<uint64_t>(ElementType::kUI64, Reduction::kMax, {{~uint64_t{0}}, {1}}),
              ElementsAre(~uint64_t{0}));
  EXPECT_THAT(Combine<uint32_t>(ElementType::kUI32, Reduction::kXor, {{6}, {3}}), ElementsAre(5));
  EXPECT_THAT(Combine<int32_t>(ElementType::kI32, Reduction::kAnd, {{6}, {3}}), ElementsAre(2));
  EXPECT_THAT(Combine<int32_t>(ElementType::kI32, Reduction::kOr, {{6}, {3}}), ElementsAre(7));
}

TEST(ReduceTest, SmallIntegersOnePerByte) {
  // i4: 7 + 1 = -8, sign-extended; the upper half of an operand's byte is ignored.
  EXPECT_THAT(Combine<uint8_t>(ElementType::kI4, Reduction::kSum, {{7, 0xff}, {0xf1, 0x0f}}),
              ElementsAre(0xf8, 0xfe));
  EXPECT_THAT(Combine<uint8_t>(ElementType::kI4, Reduction::kMax, {{0x0f}, {1}}), ElementsAre(1));
  EXPECT_THAT(Combine<uint8_t>(ElementType::kUI4, Reduction::kSum, {{15}, {2}}), ElementsAre(1));
  EXPECT_THAT(Combine<uint8_t>(ElementType::kUI2, Reduction::kMax, {{3}, {1}}), ElementsAre(3));
  EXPECT_THAT(Combine<uint8_t>(ElementType::kI2, Reduction::kProduct, {{3}, {1}}),
              ElementsAre(0xff));
}

TEST(ReduceTest, Booleans) {
  const std::vector<std::vector<uint8_t>> in = {{0, 0, 1, 1}, {0, 1, 0, 1}};
  for (Reduction r : {Reduction::kSum, Reduction::kMax, Reduction::kOr}) {
    EXPECT_THAT(Combine<uint8_t>(ElementType::kI1, r, in), ElementsAre(0, 1, 1, 1));
  }
  for (Reduction r : {Reduction::kProduct, Reduction::kMin, Reduction::kAnd}) {
    EXPECT_THAT(Combine<uint8_t>(ElementType::kI1, r, in), ElementsAre(0, 0, 0, 1));
  }
  EXPECT_THAT(Combine<uint8_t>(ElementType::kI1, Reduction::kXor, in), ElementsAre(0, 1, 1, 0));
}

TEST(ReduceTest, ComplexNumbers) {
  using C = std::complex<float>;
  EXPECT_THAT(Combine<C>(ElementType::kC64, Reduction::kSum, {{C(1, 2)}, {C(3, -5)}}),
              ElementsAre(C(4, -3)));
  EXPECT_THAT(Combine<C>(ElementType::kC64, Reduction::kProduct, {{C(1, 2)}, {C(3, -5)}}),
              ElementsAre(C(13, 1)));
  EXPECT_THAT(
      Combine<C>(ElementType::kC64, Reduction::kMax, {{C(1, 2), C(1, 2)}, {C(0, 9), C(1, 3)}}),
      ElementsAre(C(1, 2), C(1, 3)));
}

TEST(ReduceTest, EveryTypeHasTheArithmeticReductions) {
  for (int t = 1; t < kNumElementTypes; ++t) {
    const auto type = static_cast<ElementType>(t);
    for (Reduction r : {Reduction::kSum, Reduction::kProduct, Reduction::kMin, Reduction::kMax}) {
      EXPECT_NE(FindReduce(type, r), nullptr) << ElementTypeName(type);
    }
    const bool bitwise = type == ElementType::kI1 || IsInteger(type);
    EXPECT_EQ(FindReduce(type, Reduction::kXor) != nullptr, bitwise) << ElementTypeName(type);
    EXPECT_EQ(FindReduce(type, Reduction::kNone), nullptr);
  }
}

}  // namespace
}  // namespace shardway::comm
