#include "shardway/worker/transfer_frame.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace shardway::worker {
namespace {

TEST(TransferFrameTest, CarriesAStatus) {
  std::vector<char> frame(kFrameHeader + 10, 'x');
  WriteFrameHeader(absl::OkStatus(), absl::MakeSpan(frame));
  EXPECT_TRUE(ReadFrameHeader(frame).ok());
  EXPECT_EQ(frame[kFrameHeader], 'x');
  WriteFrameHeader(absl::DataLossError("the cause"), absl::MakeSpan(frame));
  EXPECT_EQ(ReadFrameHeader(frame), absl::DataLossError("the cause"));
  WriteFrameHeader(absl::InternalError(std::string(5000, 'y')), absl::MakeSpan(frame));
  EXPECT_GT(ReadFrameHeader(frame).message().size(), 900u);
}

TEST(TransferFrameTest, DamageIsAnError) {
  EXPECT_EQ(ReadFrameHeader({}).code(), absl::StatusCode::kDataLoss);
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::vector<char> frame(kFrameHeader);
  for (int i = 0; i < 1000; ++i) {
    for (char& byte : frame) byte = static_cast<char>(random());
    frame[3] |= 1;  // a code beyond all codes
    EXPECT_EQ(ReadFrameHeader(frame).code(), absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace shardway::worker
