#include "shardway/worker/outbox.h"

#include <gtest/gtest.h>

namespace shardway::worker {
namespace {

class OutboxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto ends = wire::MakeChannelPair();
    ASSERT_TRUE(ends.ok()) << ends.status();
    ends_ = *std::move(ends);
  }
  wire::FromWorker Next() {
    wire::FromWorker message;
    const absl::Status status = ends_.second->Receive(&message, std::chrono::seconds(30));
    EXPECT_TRUE(status.ok()) << status;
    return message;
  }
  std::pair<std::unique_ptr<wire::Channel>, std::unique_ptr<wire::Channel>> ends_;
};

TEST_F(OutboxTest, GathersUntilSomethingIsUrgent) {
  Outbox outbox(ends_.first.get());
  outbox.Ended(1, absl::OkStatus(), Outbox::Urgency::kGather);
  outbox.Ended(2, absl::DataLossError("gone"), Outbox::Urgency::kGather);
  outbox.Ended(3, absl::OkStatus(), Outbox::Urgency::kSendNow);
  std::vector<uint64_t> ids;
  std::vector<uint64_t> failed;
  while (ids.size() + failed.size() < 3) {
    const wire::FromWorker message = Next();
    for (uint64_t id : message.done().ids()) ids.push_back(id);
    for (const auto& failure : message.done().failures()) failed.push_back(failure.id());
  }
  EXPECT_EQ(ids, (std::vector<uint64_t>{1, 3}));
  EXPECT_EQ(failed, (std::vector<uint64_t>{2}));
}

TEST_F(OutboxTest, WhatWasGatheredGoesOutByItself) {
  Outbox outbox(ends_.first.get());
  for (uint64_t id = 1; id <= 3; ++id) {
    outbox.Ended(id, absl::OkStatus(), Outbox::Urgency::kGather);
    EXPECT_EQ(Next().done().ids(0), id);
  }
}

TEST_F(OutboxTest, AFullBatchIsSentAtOnce) {
  Outbox outbox(ends_.first.get());
  for (int i = 1; i <= 10 * Outbox::kMaxBatch; ++i) {
    outbox.Ended(i, absl::OkStatus(), Outbox::Urgency::kGather);
  }
  int ids = 0;
  while (ids < 10 * Outbox::kMaxBatch) {
    const wire::FromWorker message = Next();
    EXPECT_LE(message.done().ids_size(), Outbox::kMaxBatch);
    ids += message.done().ids_size();
  }
}

TEST_F(OutboxTest, PostsKeepTheirOrder) {
  Outbox outbox(ends_.first.get());
  for (uint64_t i = 1; i <= 100; ++i) {
    wire::FromWorker message;
    message.set_pong(i);
    outbox.Post(std::move(message));
  }
  for (uint64_t i = 1; i <= 100; ++i) EXPECT_EQ(Next().pong(), i);
}

TEST_F(OutboxTest, SendsWhatIsLeftAtTheEnd) {
  {
    Outbox outbox(ends_.first.get());
    outbox.Ended(1, absl::OkStatus(), Outbox::Urgency::kGather);
  }
  EXPECT_EQ(Next().done().ids(0), 1u);
}

}  // namespace
}  // namespace shardway::worker
