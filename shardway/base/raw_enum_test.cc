#include "shardway/base/raw_enum.h"

#include <gtest/gtest.h>

namespace shardway {
namespace {

enum Theirs { kFirst, kSecond };

// `make asan` reports loads of values that an enum cannot have.
TEST(RawEnumTest, ValuesOfANewerHeaderAreNumbers) {
  Theirs value = kSecond;
  EXPECT_EQ(RawEnum(value), 1);
  const int newer = 24;
  std::memcpy(&value, &newer, sizeof(newer));
  EXPECT_EQ(RawEnum(value), 24);
}

}  // namespace
}  // namespace shardway
