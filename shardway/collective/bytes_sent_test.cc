#include "shardway/collective/bytes_sent.h"

#include <gtest/gtest.h>

namespace shardway::collective {
namespace {

// f32[8,4] is 128 bytes.
Spec Over(Kind kind, std::vector<int64_t> operand, std::vector<int64_t> result) {
  Spec spec;
  spec.kind = kind;
  spec.operands = {{ElementType::kF32, std::move(operand)}};
  spec.results = {{ElementType::kF32, std::move(result)}};
  spec.groups.mesh = {2, 4};
  spec.groups.axes = {1};
  return spec;
}

TEST(BytesSent, AsCountedByHand) {
  EXPECT_EQ(BytesSent(Over(Kind::kAllReduce, {8, 4}, {8, 4})), 192);
  EXPECT_EQ(BytesSent(Over(Kind::kAllGather, {2, 4}, {8, 4})), 96);
  EXPECT_EQ(BytesSent(Over(Kind::kReduceScatter, {8, 4}, {2, 4})), 96);
  EXPECT_EQ(BytesSent(Over(Kind::kAllToAll, {8, 4}, {2, 16})), 96);
  EXPECT_EQ(BytesSent(Over(Kind::kCollectivePermute, {8, 4}, {8, 4})), 128);
}

TEST(BytesSent, AloneNothingIsSent) {
  Spec spec = Over(Kind::kAllReduce, {8, 4}, {8, 4});
  spec.groups.axes = {};
  spec.groups.lists = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
  EXPECT_EQ(BytesSent(spec), 0);
}

}  // namespace
}  // namespace shardway::collective
