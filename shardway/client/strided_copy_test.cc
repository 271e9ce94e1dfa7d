#include "shardway/client/strided_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace shardway::client {
namespace {

TEST(StridedCopyTest, FortranOrder) {
  const std::vector<int32_t> source = {0, 3, 1, 4, 2, 5};  // columns of [[0 1 2] [3 4 5]]
  std::vector<int32_t> result(6);
  CopyStrided(reinterpret_cast<char*>(result.data()), reinterpret_cast<const char*>(source.data()),
              {2, 3}, {4, 8}, 4);
  EXPECT_EQ(result, (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
}

TEST(StridedCopyTest, ScalarsAndEmptyArrays) {
  const int16_t source = 7;
  int16_t result = 0;
  auto* to = reinterpret_cast<char*>(&result);
  auto* from = reinterpret_cast<const char*>(&source);
  CopyStrided(to, from, {0, 5}, {}, 2);
  CopyStrided(to, nullptr, {3, 0}, {2, 2}, 2);
  EXPECT_EQ(result, 0);
  CopyStrided(to, from, {}, {}, 2);
  EXPECT_EQ(result, 7);
  result = 0;
  CopyStrided(to, from, {1, 1}, {100, -100}, 2);
  EXPECT_EQ(result, 7);
}

TEST(StridedCopyTest, RandomStrides) {
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    const int element = 1 << random() % 5;
    const size_t rank = random() % 5;
    std::vector<int64_t> dims(rank), strides(rank);
    for (int64_t& dim : dims) dim = random() % 4 + (random() % 8 != 0);
    // A permuted layout, then some dimensions reversed or broadcast.
    std::vector<size_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    int64_t size = element;
    int64_t origin = 0;
    for (size_t axis : order) {
      strides[axis] = size;
      size *= std::max<int64_t>(dims[axis], 1);
      const unsigned kind = random() % 4;
      if (kind == 0) strides[axis] = 0;
      if (kind == 1 && dims[axis] > 0) {
        origin += strides[axis] * (dims[axis] - 1);
        strides[axis] = -strides[axis];
      }
    }
    std::vector<char> memory(size);
    for (char& byte : memory) byte = static_cast<char>(random());
    const int64_t count =
        std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
    std::vector<char> result(count * element), expected;
    CopyStrided(result.data(), memory.data() + origin, dims, strides, element);
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i;
      int64_t at = origin;
      for (size_t axis = rank; axis-- > 0;) {
        at += rest % dims[axis] * strides[axis];
        rest /= dims[axis];
      }
      expected.insert(expected.end(), memory.begin() + at, memory.begin() + at + element);
    }
    ASSERT_EQ(result, expected) << "round " << round;
  }
}

}  // namespace
}  // namespace shardway::client
