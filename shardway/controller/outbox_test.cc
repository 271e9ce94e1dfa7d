#include "shardway/controller/outbox.h"

#include <gtest/gtest.h>

#include "shardway/wire/worker.pb.h"

namespace shardway::controller {
namespace {

constexpr Duration kDeadline = std::chrono::seconds(60);

std::string Message(uint64_t number, size_t bytes) {
  wire::ToWorker message;
  message.mutable_load()->set_program(number);
  message.mutable_load()->set_text(std::string(bytes, 'x'));
  return message.SerializeAsString();
}

TEST(OutboxTest, KeepsWhatHasNoRoomAndSendsItInOrder) {
  auto ends = wire::MakeChannelPair({.ring_bytes = 1 << 16});
  ASSERT_TRUE(ends.ok()) << ends.status();
  Outbox outbox(ends->first.get());
  constexpr uint64_t kMessages = 500;
  // Far more than the ring holds, with nobody reading; some larger than the ring.
  for (uint64_t i = 1; i <= kMessages; ++i) {
    ASSERT_TRUE(outbox.Send(Message(i, i % 100 == 0 ? 200'000 : 1000)).ok()) << i;
  }
  for (uint64_t i = 1; i <= kMessages; ++i) {
    wire::ToWorker message;
    const absl::Status status = ends->second->Receive(&message, kDeadline);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(message.load().program(), i);
  }
  // Empty again: straight through.
  ASSERT_TRUE(outbox.Send(Message(7, 10)).ok());
  wire::ToWorker message;
  ASSERT_TRUE(ends->second->Receive(&message, kDeadline).ok());
  EXPECT_EQ(message.load().program(), 7u);
}

TEST(OutboxTest, ABacklogHasALimit) {
  auto ends = wire::MakeChannelPair({.ring_bytes = 1 << 16});
  ASSERT_TRUE(ends.ok()) << ends.status();
  {
    Outbox outbox(ends->first.get(), /*max_backlog_bytes=*/1 << 20);
    absl::Status status;
    for (int i = 1; i <= 10'000 && status.ok(); ++i) {
      status = outbox.Send(Message(i, 1000));
    }
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_FALSE(outbox.Send(Message(1, 1)).ok()) << "nothing is sent out of order";
    ends->first->Close();
  }
}

TEST(OutboxTest, ALostPeerIsAnError) {
  auto ends = wire::MakeChannelPair();
  ASSERT_TRUE(ends.ok()) << ends.status();
  Outbox outbox(ends->first.get());
  ends->second->Close();
  EXPECT_TRUE(absl::IsUnavailable(outbox.Send(Message(1, 1))));
}

}  // namespace
}  // namespace shardway::controller
