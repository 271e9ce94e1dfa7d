#include "shardway/base/element_type.h"

#include <gtest/gtest.h>

namespace shardway {
namespace {

TEST(ElementTypeTest, NamesRoundTrip) {
  for (int i = 1; i < kNumElementTypes; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(ElementTypeFromName(ElementTypeName(type)), type) << i;
  }
  EXPECT_EQ(ElementTypeFromName("invalid"), std::nullopt);
  EXPECT_EQ(ElementTypeFromName("f33"), std::nullopt);
}

TEST(ElementTypeTest, Sizes) {
  EXPECT_EQ(ElementBytes(ElementType::kI1), 1);
  EXPECT_EQ(ElementBits(ElementType::kI4), 4);
  EXPECT_EQ(ElementBytes(ElementType::kI4), 1);
  EXPECT_EQ(ElementBytes(ElementType::kBF16), 2);
  EXPECT_EQ(ElementBytes(ElementType::kC128), 16);
}

TEST(ElementTypeTest, ClassesAreDisjoint) {
  for (int i = 0; i < kNumElementTypes; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_LE(IsFloat(type) + IsComplex(type) + IsSignedInteger(type) + IsUnsignedInteger(type), 1);
  }
}

}  // namespace
}  // namespace shardway
