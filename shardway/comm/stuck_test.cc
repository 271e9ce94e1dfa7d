// A participant that does not come: who is blamed, when, and who is not.
#include "shardway/comm/stuck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "shardway/comm/test_cluster.h"

namespace shardway::comm {
namespace {

using collective::Reduction;
using collective::Spec;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kDevices = 4;
constexpr Duration kShort = milliseconds(50);
constexpr Duration kLong = seconds(60);

// Device 3 is the one that is waited for.
class StuckTest : public testing::TestWithParam<int> {
 protected:
  void Start(Duration timeout, Duration start_timeout) {
    cluster_ =
        std::make_unique<TestCluster>(GetParam(), kDevices / GetParam(), timeout, start_timeout);
    Spec spec;
    spec.reduction = Reduction::kSum;
    spec.operands = spec.results = {{ElementType::kBF16, {8}}};
    spec.groups = {.mesh = {kDevices}, .axes = {0}};
    spec.location = "train.py:33";
    cluster_->Prepare({spec});
  }
  absl::Status Meet(int device) {
    uint16_t in[8] = {}, out[8];
    return cluster_->Collective(1, device, 0, {in}, {out});
  }
  CommunicatorImpl& host_of_last() { return cluster_->host_of(3); }
  int last() const { return cluster_->ordinal_of(3); }
  // The others' errors, when device 3 stays away.
  void ExpectBlamed(const char* why) {
    cluster_->Run([&](int device) {
      if (device == 3) return;
      const absl::Status status = Meet(device);
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
      EXPECT_THAT(
          std::string(status.message()),
          AllOf(HasSubstr("all_reduce sum bf16[8] over axes [0] of [4]"), HasSubstr("train.py:33"),
                HasSubstr("device 3 on host " + std::to_string(GetParam() - 1) + why)));
    });
  }

  std::unique_ptr<TestCluster> cluster_;
};

TEST_P(StuckTest, CollectiveAndMissingDeviceAreNamed) {
  Start(kShort, kLong);
  cluster_->Begin(1);
  ExpectBlamed(" for ");
  cluster_->End(1);
}

TEST_P(StuckTest, ADeviceThatHasGoneOnIsMissing) {
  Start(kShort, kLong);
  cluster_->Begin(1, /*unstarted=*/3);
  host_of_last().DeviceStarts(2, last());
  ExpectBlamed(" for ");
  cluster_->End(1);
}

// Its host compiles, or it executes an earlier run.
TEST_P(StuckTest, TimeBeforeADeviceStartsDoesNotCount) {
  Start(kShort, kLong);
  cluster_->Begin(1, /*unstarted=*/3);
  cluster_->Run([&](int device) {
    if (device == 3) {
      std::this_thread::sleep_for(10 * kShort);
      host_of_last().DeviceStarts(1, last());
    }
    const absl::Status status = Meet(device);
    EXPECT_TRUE(status.ok()) << status;
  });
  cluster_->End(1);
}

TEST_P(StuckTest, TimeInAHostCallbackDoesNotCount) {
  Start(kShort, kLong);
  cluster_->Begin(1);
  host_of_last().DeviceOutside(last(), +1);
  cluster_->Run([&](int device) {
    if (device == 3) {
      std::this_thread::sleep_for(10 * kShort);
      host_of_last().DeviceOutside(last(), -1);
    }
    const absl::Status status = Meet(device);
    EXPECT_TRUE(status.ok()) << status;
  });
  cluster_->End(1);
}

TEST_P(StuckTest, ADeviceThatNeverStartsIsNamed) {
  Start(kLong, kShort);
  cluster_->Begin(1, /*unstarted=*/3);
  ExpectBlamed(" (which has not started the run) for ");
  cluster_->End(1);
}

INSTANTIATE_TEST_SUITE_P(Hosts, StuckTest, testing::Values(1, 2));

TEST(DeviceBoardTest, LaunchesInOrderAndAroundTheirEnd) {
  DeviceBoard board(nullptr, 2);
  EXPECT_FALSE(board.HasStarted(0, 7));
  board.Start(0, 7);
  EXPECT_TRUE(board.HasStarted(0, 7));
  EXPECT_TRUE(board.HasStarted(0, 6));
  EXPECT_FALSE(board.HasStarted(0, 8));
  EXPECT_FALSE(board.HasStarted(1, 7));
  board.Start(0, 0x7fffffff);
  EXPECT_FALSE(board.HasStarted(0, 1));
  board.Start(0, 1);  // after the last id comes the first
  EXPECT_TRUE(board.HasStarted(0, 0x7fffffff));
  EXPECT_FALSE(board.HasStarted(0, 2));
}

TEST(DeviceBoardTest, SharedMemoryHasItsLimit) {
  const int fd = MakeSharedMemory(2);
  Communicator::Options options = HostOptions(2, 1, 0, fd, kLong);
  options.host_of_device.resize(kMaxSegmentDevices + 1, 1);
  const auto made = CommunicatorImpl::Create(std::move(options));
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument) << made.status();
  ::close(fd);
}

}  // namespace
}  // namespace shardway::comm
