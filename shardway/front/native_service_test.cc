#include "shardway/front/native_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "shardway/controller/fake_worker.h"
#include "shardway/wire/arena.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/socket.h"

namespace shardway::front {
namespace {

using ::testing::HasSubstr;

constexpr Duration kDeadline = std::chrono::seconds(60);

absl::StatusOr<compile::Partitioned> Refuse(const compile::Request&) {
  return absl::UnimplementedError("no programs here");
}

class NativeServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    controller::ControllerOptions options;
    options.shape = {.islands = 1, .hosts = 1, .devices = 2};
    options.arena_bytes = 1 << 20;
    options.compile = Refuse;
    auto ends = wire::MakeChannelPair();
    ASSERT_TRUE(ends.ok()) << ends.status();
    options.workers.push_back(std::move(ends->first));
    worker_ = std::make_unique<controller::FakeWorker>(std::move(ends->second));
    auto controller = controller::Controller::Start(std::move(options));
    ASSERT_TRUE(controller.ok()) << controller.status();
    controller_ = *std::move(controller);

    auto sockets = wire::SocketPair();
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    service_ =
        std::async(std::launch::async, [this, socket = std::move(sockets->second)]() mutable {
          return ServeSession(*controller_, std::move(socket));
        });
    auto channel = wire::MakeSharedMemoryChannel(std::move(sockets->first));
    ASSERT_TRUE(channel.ok()) << channel.status();
    channel_ = *std::move(channel);
  }
  void TearDown() override {
    channel_.reset();
    if (service_.valid()) service_.wait();
  }
  void SayHello(uint32_t protocol = wire::kSessionProtocol) {
    wire::ClientMessage message;
    message.mutable_hello()->set_protocol(protocol);
    message.mutable_hello()->set_client_name("test");
    ASSERT_TRUE(channel_->Send(message).ok());
  }
  wire::ServerMessage Receive(wire::UniqueFd* fd = nullptr) {
    wire::ServerMessage message;
    const absl::Status status = channel_->Receive(&message, kDeadline, fd);
    EXPECT_TRUE(status.ok()) << status;
    return message;
  }

  std::unique_ptr<controller::FakeWorker> worker_;
  std::unique_ptr<controller::Controller> controller_;
  std::future<absl::Status> service_;
  std::unique_ptr<wire::Channel> channel_;
};

TEST_F(NativeServiceTest, WelcomesWithDevicesAndAnArena) {
  SayHello();
  wire::UniqueFd fd;
  const wire::ServerMessage message = Receive(&fd);
  ASSERT_TRUE(message.has_welcome());
  EXPECT_EQ(message.welcome().platform(), "fake");
  ASSERT_EQ(message.welcome().devices_size(), 2);
  EXPECT_EQ(message.welcome().devices(1).local(), 1);
  EXPECT_TRUE(wire::ArenaView::Map(std::move(fd), message.welcome().arena_bytes()).ok());
  channel_.reset();
  EXPECT_TRUE(service_.get().ok()) << "a client that leaves is no error";
}

TEST_F(NativeServiceTest, AnswersPingsPutsReadsAndCompiles) {
  SayHello();
  Receive();
  wire::ClientMessage message;
  message.set_ping(42);
  ASSERT_TRUE(channel_->Send(message).ok());
  EXPECT_EQ(Receive().pong(), 42u);

  wire::PutArray& put = *message.mutable_put();
  put.set_seq(1);
  put.set_array(1);
  put.set_element(static_cast<uint32_t>(ElementType::kF32));
  put.add_devices(0);
  put.add_offsets(0);
  ASSERT_TRUE(channel_->Send(message).ok());
  const wire::ServerMessage done = Receive();
  ASSERT_EQ(done.done().seqs_size(), 1) << done.ShortDebugString();
  EXPECT_EQ(done.done().seqs(0), 1u);

  message.mutable_read()->set_request(5);
  message.mutable_read()->set_array(1);
  ASSERT_TRUE(channel_->Send(message).ok());
  const wire::ServerMessage read = Receive();
  EXPECT_EQ(read.read_done().request(), 5u);
  EXPECT_EQ(read.read_done().data(), "data");

  message.mutable_compile()->set_program(1);
  message.mutable_compile()->set_artifact("code");
  message.mutable_compile()->mutable_options()->set_num_replicas(1);
  message.mutable_compile()->mutable_options()->set_num_partitions(1);
  message.mutable_compile()->mutable_options()->add_devices(1);
  ASSERT_TRUE(channel_->Send(message).ok());
  EXPECT_EQ(Receive().compiled().status().message(), "no programs here");
}

TEST_F(NativeServiceTest, AnotherProtocolIsRefusedInWords) {
  SayHello(wire::kSessionProtocol + 1);
  const wire::ServerMessage message = Receive();
  EXPECT_THAT(message.goodbye().message(), HasSubstr("same version of shardway"));
  EXPECT_FALSE(service_.get().ok());
}

TEST_F(NativeServiceTest, ABadMessageEndsTheSessionAndNothingElse) {
  SayHello();
  Receive();
  wire::ClientMessage message;
  message.mutable_put()->set_seq(1);
  message.mutable_put()->set_array(0);  // never a valid id
  ASSERT_TRUE(channel_->Send(message).ok());
  EXPECT_TRUE(Receive().has_goodbye());
  EXPECT_TRUE(absl::IsInvalidArgument(service_.get()));
  const TimePoint deadline = Clock::Real()->Now() + kDeadline;
  while (!worker_->saw_session_close() && Clock::Real()->Now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(worker_->saw_session_close());
}

TEST_F(NativeServiceTest, BytesThatAreNoMessageEndTheSession) {
  SayHello();
  Receive();
  ASSERT_TRUE(channel_->SendBytes("\xff\xff\xff garbage").ok());
  EXPECT_TRUE(Receive().has_goodbye());
  EXPECT_FALSE(service_.get().ok());
}

}  // namespace
}  // namespace shardway::front
