#include "shardway/comm/narrow_float.h"

#include <random>

#include "gtest/gtest.h"

namespace shardway::comm {
namespace {

template <typename Format>
class NarrowFloatTest : public testing::Test {};

struct Names {
  template <typename Format>
  static std::string GetName(int i) {
    return std::to_string(i);
  }
};
using Formats = testing::Types<F16, BF16, F8E3M4, F8E4M3, F8E5M2, F8E4M3FN, F8E4M3FNUZ,
                               F8E4M3B11FNUZ, F8E5M2FNUZ, F4E2M1FN, F6E2M3FN, F6E3M2FN, F8E8M0FNU>;
TYPED_TEST_SUITE(NarrowFloatTest, Formats, Names);

template <typename Format>
int NumCodes() {
  if constexpr (sizeof(typename Format::Storage) == 2) return 1 << 16;
  if constexpr (requires { Format::kSignShift; }) return 2 << Format::kSignShift;
  return 256;
}

TYPED_TEST(NarrowFloatTest, EveryCodeSurvives) {
  for (int code = 0; code < NumCodes<TypeParam>(); ++code) {
    const auto value = TypeParam::Decode(static_cast<typename TypeParam::Storage>(code));
    const auto back = TypeParam::Encode(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(TypeParam::Decode(back))) << code;
    } else {
      EXPECT_EQ(back, code) << value;
    }
  }
}

// Nearest of all codes, ties to the even one; what lies beyond the largest goes where the format
// says.
TYPED_TEST(NarrowFloatTest, RoundsToNearestEven) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::vector<std::pair<double, int>> finite;
  for (int code = 0; code < NumCodes<TypeParam>(); ++code) {
    const double value = TypeParam::Decode(static_cast<typename TypeParam::Storage>(code));
    if (std::isfinite(value)) finite.emplace_back(value, code);
  }
  std::sort(finite.begin(), finite.end());
  const double largest = finite.back().first;
  for (int i = 0; i < 20'000; ++i) {
    // Between two neighbours, at times exactly in the middle.
    const size_t at = random() % (finite.size() - 1);
    const auto [low, low_code] = finite[at];
    const auto [high, high_code] = finite[at + 1];
    const double weight = i % 3 == 0 ? 0.5 : (random() % 1024) / 1024.0;
    using Value = decltype(TypeParam::Decode(0));
    const Value x = static_cast<Value>(low + (high - low) * weight);
    const double to_low = static_cast<double>(x) - low, to_high = high - static_cast<double>(x);
    const double got = TypeParam::Decode(TypeParam::Encode(x));
    if (to_low < to_high) {
      EXPECT_EQ(got, low) << x;
    } else if (to_high < to_low) {
      EXPECT_EQ(got, high) << x;
    } else if (low != high) {
      EXPECT_EQ(got, low_code % 2 == 0 ? low : high) << x;
    }
  }
  using Value = decltype(TypeParam::Decode(0));
  const double beyond = TypeParam::Decode(TypeParam::Encode(static_cast<Value>(largest) * 2));
  EXPECT_FALSE(std::isfinite(beyond) && beyond != largest) << beyond;
}

}  // namespace
}  // namespace shardway::comm
