#include "shardway/ir/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace shardway::ir {
namespace {

std::string Code(ElementType type, uint32_t bits) {
  return std::string(reinterpret_cast<const char*>(&bits), ElementBytes(type));
}

// Every code of every narrow format decodes to a number that encodes to the same code.
TEST(Scalar, NarrowFloatsRoundTripOnEveryCode) {
  for (int t = 1; t < kNumElementTypes; ++t) {
    const auto type = static_cast<ElementType>(t);
    if (!IsFloat(type) || ElementBits(type) > 16) continue;
    for (uint32_t bits = 0; bits < (1u << ElementBits(type)); ++bits) {
      const std::string code = Code(type, bits);
      const double value = DoubleFromElement(type, code);
      const std::string again = ElementFromDouble(type, value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(DoubleFromElement(type, again))) << ElementTypeName(type) << bits;
      } else {
        EXPECT_EQ(again, code) << ElementTypeName(type) << " " << bits << " " << value;
      }
    }
  }
}

TEST(Scalar, KnownCodes) {
  EXPECT_EQ(ElementFromDouble(ElementType::kInvalid, 1.0), "");
  EXPECT_EQ(ElementFromInt(ElementType::kInvalid, 1), "");
  EXPECT_EQ(ElementFromDouble(ElementType::kBF16, 1.0), std::string("\x80\x3f", 2));
  EXPECT_EQ(ElementFromDouble(ElementType::kF16, -2.0), std::string("\x00\xc0", 2));
  EXPECT_EQ(ElementFromDouble(ElementType::kF8E4M3FN, 448), "\x7e");
  EXPECT_EQ(ElementFromDouble(ElementType::kF8E5M2, INFINITY), "\x7c");
  EXPECT_EQ(ElementFromDouble(ElementType::kF8E4M3FNUZ, 1.0), "\x40");
  EXPECT_EQ(ElementFromDouble(ElementType::kF4E2M1FN, 6.0), "\x07");
  EXPECT_EQ(ElementFromDouble(ElementType::kF8E8M0FNU, 2.0), "\x80");
}

TEST(Scalar, RoundsToNearestEven) {
  // bf16 has 8 significant bits: 257 lies between 256 and 258, 259 between 258 and 260.
  EXPECT_EQ(DoubleFromElement(ElementType::kBF16, ElementFromDouble(ElementType::kBF16, 257)), 256);
  EXPECT_EQ(DoubleFromElement(ElementType::kBF16, ElementFromDouble(ElementType::kBF16, 259)), 260);
  // The smallest f16 is 2^-24; half of it rounds to even, which is zero.
  const double half = std::ldexp(1, -25);
  EXPECT_EQ(DoubleFromElement(ElementType::kF16, ElementFromDouble(ElementType::kF16, half)), 0);
  EXPECT_EQ(DoubleFromElement(ElementType::kF16, ElementFromDouble(ElementType::kF16, 3 * half)),
            4 * half);
}

TEST(Scalar, InfinityIsTheIdentityOfAMaximumInEveryFormat) {
  for (int t = 1; t < kNumElementTypes; ++t) {
    const auto type = static_cast<ElementType>(t);
    if (!IsFloat(type) || type == ElementType::kF8E8M0FNU) continue;
    const double low = DoubleFromElement(type, ElementFromDouble(type, -INFINITY));
    EXPECT_LT(low, 0) << ElementTypeName(type);
    EXPECT_EQ(-low, DoubleFromElement(type, ElementFromDouble(type, INFINITY)));
  }
}

TEST(Scalar, Integers) {
  EXPECT_EQ(ElementFromInt(ElementType::kI4, -1), "\x0f");
  EXPECT_EQ(IntFromElement(ElementType::kI4, "\x0f"), -1);
  EXPECT_EQ(IntFromElement(ElementType::kUI4, "\x0f"), 15);
  EXPECT_EQ(ElementFromInt(ElementType::kI1, 7), "\x01");
  EXPECT_EQ(ElementFromDouble(ElementType::kI32, -3.9), ElementFromInt(ElementType::kI32, -3));
  EXPECT_EQ(ElementFromDouble(ElementType::kUI64, 1.8446744073709552e19),
            ElementFromInt(ElementType::kUI64, -1));
  EXPECT_EQ(ElementFromInt(ElementType::kI64, INT64_MIN),
            ElementFromDouble(ElementType::kI64, -INFINITY));
}

}  // namespace
}  // namespace shardway::ir
