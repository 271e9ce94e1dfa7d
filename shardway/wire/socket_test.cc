#include "shardway/wire/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "shardway/wire/channel.h"

namespace shardway::wire {
namespace {

std::string Address(const char* name) {
  return "unix:@shardway-test-" + std::to_string(getpid()) + "-" + name;
}

TEST(SocketTest, ConnectWaitsForTheListener) {
  const std::string address = Address("late");
  std::thread server([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    auto listener = Listen(address);
    ASSERT_TRUE(listener.ok()) << listener.status();
    auto socket = Accept(*listener, std::chrono::seconds(10));
    ASSERT_TRUE(socket.ok()) << socket.status();
    auto channel = MakeSharedMemoryChannel(*std::move(socket));
    ASSERT_TRUE(channel.ok()) << channel.status();
    ASSERT_TRUE((*channel)->SendBytes("welcome").ok());
    std::string_view bytes;
    ASSERT_TRUE((*channel)->ReceiveBytes(&bytes, std::chrono::seconds(10)).ok());
  });
  auto socket = Connect(address, std::chrono::seconds(10));
  ASSERT_TRUE(socket.ok()) << socket.status();
  auto channel = MakeSharedMemoryChannel(*std::move(socket));
  ASSERT_TRUE(channel.ok()) << channel.status();
  std::string_view bytes;
  ASSERT_TRUE((*channel)->ReceiveBytes(&bytes, std::chrono::seconds(10)).ok());
  EXPECT_EQ(bytes, "welcome");
  ASSERT_TRUE((*channel)->SendBytes("bye").ok());
  server.join();
}

TEST(SocketTest, NobodyThere) {
  const auto socket = Connect(Address("nobody"), std::chrono::milliseconds(20));
  EXPECT_EQ(socket.status().code(), absl::StatusCode::kUnavailable);
}

TEST(SocketTest, AnAddressIsTakenOnce) {
  auto first = Listen(Address("twice"));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(Listen(Address("twice")).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Accept(*first, std::chrono::milliseconds(10)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(SocketTest, BadAddresses) {
  for (const std::string& address :
       {std::string("localhost:80"), std::string("unix:"), std::string("fd:x"),
        std::string("fd:-1"), "unix:@" + std::string(200, 'x')}) {
    EXPECT_EQ(Connect(address, std::chrono::seconds(1)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
  UniqueFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(Connect("fd:" + std::to_string(file.get()), std::chrono::seconds(1)).ok());
}

TEST(SocketTest, InheritedSocket) {
  auto sockets = SocketPair();
  ASSERT_TRUE(sockets.ok());
  EXPECT_EQ(fcntl(sockets->first.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  KeepOverExec(sockets->first.get());
  EXPECT_EQ(fcntl(sockets->first.get(), F_GETFD) & FD_CLOEXEC, 0);
  auto socket = Connect("fd:" + std::to_string(sockets->first.Release()), std::chrono::seconds(1));
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(fcntl(socket->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

}  // namespace
}  // namespace shardway::wire
