#include "shardway/wire/channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "shardway/wire/protocol.h"
#include "shardway/wire/session.pb.h"
#include "shardway/wire/socket.h"

namespace shardway::wire {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Ends {
  std::unique_ptr<Channel> a;
  std::unique_ptr<Channel> b;
};

Ends MakeEnds(ChannelOptions options = {}) {
  auto pair = MakeChannelPair(options);
  EXPECT_TRUE(pair.ok()) << pair.status();
  return {std::move(pair->first), std::move(pair->second)};
}

unsigned Seed() {
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  return seed;
}

std::string Pattern(std::mt19937& random, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; i += 61) bytes[i] = static_cast<char>(random());
  return bytes;
}

TEST(ChannelTest, MessageAndDescriptorArriveInOrder) {
  Ends ends = MakeEnds();
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  UniqueFd read_end(pipe_ends[0]), write_end(pipe_ends[1]);
  ClientMessage message;
  message.set_ping(1);
  ASSERT_TRUE(ends.a->Send(message).ok());
  message.set_ping(2);
  ASSERT_TRUE(ends.a->Send(message, write_end.get()).ok());
  message.set_ping(3);
  ASSERT_TRUE(ends.a->Send(message).ok());
  write_end.Reset();

  ClientMessage got;
  UniqueFd fd;
  ASSERT_TRUE(ends.b->Receive(&got, seconds(5), &fd).ok());
  EXPECT_EQ(got.ping(), 1u);
  EXPECT_FALSE(fd.valid());
  EXPECT_TRUE(ends.b->HasMore());
  ASSERT_TRUE(ends.b->Receive(&got, seconds(5), &fd).ok());
  EXPECT_EQ(got.ping(), 2u);
  ASSERT_TRUE(fd.valid());
  ASSERT_EQ(write(fd.get(), "x", 1), 1);
  char byte = 0;
  ASSERT_EQ(read(read_end.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  ASSERT_TRUE(ends.b->Receive(&got, seconds(5), &fd).ok());
  EXPECT_EQ(got.ping(), 3u);
  EXPECT_FALSE(fd.valid());
  EXPECT_FALSE(ends.b->HasMore());
}

TEST(ChannelTest, ReceiveTimesOutAndGoesOn) {
  Ends ends = MakeEnds();
  ClientMessage got;
  EXPECT_EQ(ends.b->Receive(&got, milliseconds(20)).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ends.b->Receive(&got, Duration::zero()).code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(ends.a->SendBytes("").ok());
  std::string_view bytes;
  ASSERT_TRUE(ends.b->ReceiveBytes(&bytes, seconds(5)).ok());
  EXPECT_TRUE(bytes.empty());
}

TEST(ChannelTest, AMessageThatDoesNotParseIsSkipped) {
  Ends ends = MakeEnds();
  ClientMessage message;
  message.set_ping(7);
  ASSERT_TRUE(ends.a->SendBytes("\xff\xff\xff").ok());
  ASSERT_TRUE(ends.a->Send(message).ok());
  ClientMessage got;
  EXPECT_EQ(ends.b->Receive(&got, seconds(5)).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(ends.b->Receive(&got, seconds(5)).ok());
  EXPECT_EQ(got.ping(), 7u);
}

TEST(ChannelTest, RandomSizesThroughASmallRingBothWays) {
  const unsigned seed = Seed();
  Ends ends = MakeEnds({.ring_bytes = 8192});
  constexpr int kMessages = 3000;
  auto size_of = [](std::mt19937& random) {
    const unsigned kind = random() % 20;
    return kind == 0 ? random() % 100'000 : kind < 5 ? random() % 9000 : random() % 64;
  };
  auto send = [&](Channel& channel, unsigned salt) {
    std::mt19937 random(seed + salt);
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_TRUE(channel.SendBytes(Pattern(random, size_of(random))).ok()) << i;
    }
  };
  auto receive = [&](Channel& channel, unsigned salt) {
    std::mt19937 random(seed + salt);
    for (int i = 0; i < kMessages; ++i) {
      const std::string expected = Pattern(random, size_of(random));
      std::string_view bytes;
      ASSERT_TRUE(channel.ReceiveBytes(&bytes, seconds(20)).ok()) << i;
      ASSERT_EQ(bytes, expected) << i;
    }
  };
  std::thread sender_a([&] { send(*ends.a, 1); });
  std::thread sender_b([&] { send(*ends.b, 2); });
  std::thread reader_a([&] { receive(*ends.a, 2); });
  receive(*ends.b, 1);
  sender_a.join();
  sender_b.join();
  reader_a.join();
}

TEST(ChannelTest, ManySendersKeepTheirOwnOrder) {
  Ends ends = MakeEnds({.ring_bytes = 4096});
  constexpr int kSenders = 4;
  constexpr uint64_t kEach = 2000;
  std::vector<std::thread> senders;
  for (uint64_t s = 0; s < kSenders; ++s) {
    senders.emplace_back([&, s] {
      ClientMessage message;
      for (uint64_t i = 0; i < kEach; ++i) {
        Batch batch(*ends.a);
        message.set_ping(s << 32 | i);
        ASSERT_TRUE(ends.a->Send(message).ok());
      }
    });
  }
  std::vector<uint64_t> next(kSenders, 0);
  ClientMessage got;
  for (uint64_t i = 0; i < kSenders * kEach; ++i) {
    ASSERT_TRUE(ends.b->Receive(&got, seconds(20)).ok());
    const uint64_t s = got.ping() >> 32;
    ASSERT_LT(s, next.size());
    ASSERT_EQ(got.ping() & 0xffffffff, next[s]++);
  }
  for (std::thread& sender : senders) sender.join();
}

TEST(ChannelTest, ABatchLargerThanTheRingGoesThrough) {
  Ends ends = MakeEnds({.ring_bytes = 4096});
  std::thread sender([&] {
    Batch batch(*ends.a);
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(ends.a->SendBytes(std::string(100, 'a')).ok());
    }
  });
  std::string_view bytes;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(ends.b->ReceiveBytes(&bytes, seconds(20)).ok()) << i;
  }
  sender.join();
}

TEST(ChannelTest, AnOversizedMessageIsRefused) {
  Ends ends = MakeEnds();
  const std::string_view huge("", kMaxMessageBytes + 1);  // its bytes are not looked at
  EXPECT_EQ(ends.a->SendBytes(huge).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ChannelTest, CloseWakesThisEndAndEndsTheOther) {
  Ends ends = MakeEnds();
  ASSERT_TRUE(ends.a->SendBytes("last words").ok());
  std::thread blocked([&] {
    std::string_view bytes;
    EXPECT_EQ(ends.a->ReceiveBytes(&bytes, seconds(60)).code(), absl::StatusCode::kCancelled);
  });
  std::this_thread::sleep_for(milliseconds(20));
  ends.a->Close();
  blocked.join();
  EXPECT_EQ(ends.a->SendBytes("x").code(), absl::StatusCode::kCancelled);
  std::string_view bytes;
  ASSERT_TRUE(ends.b->ReceiveBytes(&bytes, seconds(5)).ok());
  EXPECT_EQ(bytes, "last words");
  EXPECT_EQ(ends.b->ReceiveBytes(&bytes, seconds(60)).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ends.b->SendBytes("x").code(), absl::StatusCode::kUnavailable);
}

TEST(ChannelTest, ADescriptorSentBeforeCloseArrives) {
  Ends ends = MakeEnds();
  UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(ends.a->SendBytes("with", null.get()).ok());
  ends.a.reset();
  std::string_view bytes;
  UniqueFd fd;
  ASSERT_TRUE(ends.b->ReceiveBytes(&bytes, seconds(5), &fd).ok());
  EXPECT_TRUE(fd.valid());
}

TEST(ChannelTest, AReaderThatDoesNotReadIsAnErrorInTheEnd) {
  Ends ends = MakeEnds({.ring_bytes = 4096, .send_timeout = milliseconds(100)});
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) status = ends.a->SendBytes(std::string(100, 'x'));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ends.a->SendBytes("x").code(), absl::StatusCode::kCancelled);
}

// Runs `body` with the other end of a channel in a forked child.
struct Child {
  std::unique_ptr<Channel> channel;
  pid_t pid;
};
Child Fork(const std::function<void(Channel&)>& body, ChannelOptions options = {}) {
  auto sockets = SocketPair();
  EXPECT_TRUE(sockets.ok());
  const pid_t pid = fork();
  if (pid == 0) {
    sockets->first.Reset();
    auto channel = MakeSharedMemoryChannel(std::move(sockets->second), options);
    if (channel.ok()) body(**channel);
    _exit(channel.ok() ? 0 : 1);
  }
  sockets->second.Reset();
  auto channel = MakeSharedMemoryChannel(std::move(sockets->first), options);
  EXPECT_TRUE(channel.ok()) << channel.status();
  return {*std::move(channel), pid};
}

TEST(ChannelProcessTest, Echo) {
  Child child = Fork([](Channel& channel) {
    std::string_view bytes;
    while (channel.ReceiveBytes(&bytes, seconds(20)).ok()) {
      const std::string copy(bytes);
      if (!channel.SendBytes(copy).ok()) return;
    }
  });
  EXPECT_EQ(child.channel->peer_pid(), child.pid);
  std::mt19937 random(Seed());
  for (int i = 0; i < 300; ++i) {
    const std::string sent = Pattern(random, i % 50 == 0 ? 3'000'000 : random() % 500);
    std::thread sender([&] { ASSERT_TRUE(child.channel->SendBytes(sent).ok()); });
    std::string_view bytes;
    ASSERT_TRUE(child.channel->ReceiveBytes(&bytes, seconds(20)).ok());
    ASSERT_EQ(bytes, sent);
    sender.join();
  }
  child.channel.reset();
  int status = 0;
  ASSERT_EQ(waitpid(child.pid, &status, 0), child.pid);
  EXPECT_EQ(status, 0);
}

TEST(ChannelProcessTest, AKilledPeerWakesReaderAndWriter) {
  Child child = Fork([](Channel&) { pause(); }, {.ring_bytes = 4096});
  std::thread reader([&] {
    std::string_view bytes;
    EXPECT_EQ(child.channel->ReceiveBytes(&bytes, seconds(60)).code(),
              absl::StatusCode::kUnavailable);
  });
  std::thread writer([&] {
    absl::Status status;
    while (status.ok()) status = child.channel->SendBytes(std::string(100, 'x'));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  });
  std::this_thread::sleep_for(milliseconds(30));
  kill(child.pid, SIGKILL);
  reader.join();
  writer.join();
  waitpid(child.pid, nullptr, 0);
}

TEST(ChannelProcessTest, AGrandchildThatHoldsTheSocketDoesNotHideADeath) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  Child child = Fork([&](Channel& channel) {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      // What a forked child may do with its parent's channel: ask, and destroy.
      std::string_view bytes;
      const bool refused =
          channel.SendBytes("x").code() == absl::StatusCode::kFailedPrecondition &&
          channel.ReceiveBytes(&bytes, seconds(1)).code() == absl::StatusCode::kFailedPrecondition;
      channel.Close();
      if (write(pipe_ends[1], refused ? "y" : "n", 1) != 1) _exit(1);
      pause();
    }
    if (write(pipe_ends[1], &grandchild, sizeof(grandchild)) < 0) _exit(1);
    channel.SendBytes("still here").IgnoreError();
    pause();
  });
  std::string_view bytes;
  ASSERT_TRUE(child.channel->ReceiveBytes(&bytes, seconds(20)).ok());
  EXPECT_EQ(bytes, "still here");
  std::string piped;
  while (piped.size() < sizeof(pid_t) + 1) {
    char buffer[16];
    const ssize_t got = read(pipe_ends[0], buffer, sizeof(buffer));
    ASSERT_GT(got, 0);
    piped.append(buffer, got);
  }
  EXPECT_TRUE(piped.front() == 'y' || piped.back() == 'y');
  pid_t grandchild;
  std::memcpy(&grandchild, piped.data() + (piped.front() == 'y' ? 1 : 0), sizeof(pid_t));
  kill(child.pid, SIGKILL);
  EXPECT_EQ(child.channel->ReceiveBytes(&bytes, seconds(60)).code(),
            absl::StatusCode::kUnavailable);
  kill(grandchild, SIGKILL);
  waitpid(child.pid, nullptr, 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

int64_t Sleeps() {
  rusage usage = {};
  EXPECT_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
  return usage.ru_nvcsw;
}

// Who waits does not look around: a message, the peer's end and this end's wake it.
TEST(ChannelTest, AWaitingReaderSleeps) {
  Ends ends = MakeEnds();
  ClientMessage got;
  const int64_t before = Sleeps();
  EXPECT_EQ(ends.b->Receive(&got, seconds(1)).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LE(Sleeps() - before, 3);
}

TEST(ChannelTest, EndsAreNoticedWhileAsleep) {
  for (const bool own : {false, true}) {
    Ends ends = MakeEnds();
    std::thread closer([&] {
      std::this_thread::sleep_for(milliseconds(50));
      (own ? ends.b : ends.a)->Close();
    });
    ClientMessage got;
    const absl::Status status = ends.b->Receive(&got, seconds(60));
    closer.join();
    EXPECT_EQ(status.code(), own ? absl::StatusCode::kCancelled : absl::StatusCode::kUnavailable);
  }
}

// It has neither the watcher's thread nor its locks, and watches with its own.
TEST(ChannelProcessTest, AForkedChildWatchesForItself) {
  Ends ends = MakeEnds();
  const pid_t child = fork();
  if (child == 0) {
    Ends own = MakeEnds();
    std::thread closer([&] {
      usleep(50'000);
      own.a->Close();
    });
    ClientMessage got;
    const bool noticed = absl::IsUnavailable(own.b->Receive(&got, seconds(30)));
    closer.join();
    ends.a.reset();
    _exit(noticed ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ClientMessage message;
  ASSERT_TRUE(ends.a->Send(message).ok()) << "the child's end is not the parent's";
}

TEST(ChannelTest, AStrangerIsRefused) {
  auto sockets = SocketPair();
  ASSERT_TRUE(sockets.ok());
  ASSERT_EQ(write(sockets->second.get(), "GET / HTTP/1.1\r\n", 16), 16);
  auto channel = MakeSharedMemoryChannel(std::move(sockets->first));
  EXPECT_EQ(channel.status().code(), absl::StatusCode::kDataLoss) << channel.status();
}

TEST(ChannelTest, AHandshakeThatDoesNotComeTimesOut) {
  auto sockets = SocketPair();
  ASSERT_TRUE(sockets.ok());
  auto channel =
      MakeSharedMemoryChannel(std::move(sockets->first), {.handshake_timeout = milliseconds(30)});
  EXPECT_EQ(channel.status().code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace shardway::wire
