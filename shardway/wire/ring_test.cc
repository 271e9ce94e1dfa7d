// The ring against a peer that writes what it likes into the shared memory.
#include "shardway/wire/ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <random>
#include <string>

#include "shardway/wire/channel.h"
#include "shardway/wire/handshake.h"
#include "shardway/wire/sealed_memory.h"
#include "shardway/wire/socket.h"

namespace shardway::wire {
namespace {

constexpr uint64_t kBytes = 4096;

struct Fixture {
  Fixture() : fd(*RingMemory::Create(kBytes)), raw(*RingMemory::Map(fd, kBytes)) {}
  UniqueFd fd;
  RingMemory raw;  // the attacker's mapping
};

TEST(RingTest, FramesWrapAround) {
  Fixture ring;
  RingWriter writer(*RingMemory::Map(ring.fd, kBytes));
  RingReader reader(*RingMemory::Map(ring.fd, kBytes));
  std::mt19937 random(1);
  bool broken = false;
  for (int i = 0; i < 5000; ++i) {
    const std::string sent(random() % writer.max_payload(), static_cast<char>(i));
    char* room = writer.Reserve(sent.size(), &broken);
    ASSERT_NE(room, nullptr);
    std::memcpy(room, sent.data(), sent.size());
    writer.Commit(sent.size(), 0);
    RingReader::Frame frame;
    ASSERT_EQ(reader.Peek(&frame), RingReader::State::kFrame);
    ASSERT_EQ(std::string(frame.payload, frame.size), sent);
    reader.Consume(frame);
    ASSERT_EQ(reader.Peek(&frame), RingReader::State::kEmpty);
  }
}

TEST(RingTest, AFullRingHasNoRoom) {
  Fixture ring;
  RingWriter writer(*RingMemory::Map(ring.fd, kBytes));
  RingReader reader(*RingMemory::Map(ring.fd, kBytes));
  bool broken = false;
  ASSERT_NE(writer.Reserve(writer.max_payload(), &broken), nullptr);
  writer.Commit(writer.max_payload(), 0);
  ASSERT_NE(writer.Reserve(writer.max_payload(), &broken), nullptr);
  writer.Commit(writer.max_payload(), 0);
  EXPECT_EQ(writer.Reserve(0, &broken), nullptr);
  EXPECT_FALSE(broken);
  RingReader::Frame frame;
  ASSERT_EQ(reader.Peek(&frame), RingReader::State::kFrame);
  reader.Consume(frame);
  EXPECT_NE(writer.Reserve(writer.max_payload(), &broken), nullptr);
}

TEST(RingTest, ImpossiblePositionsAreNoticed) {
  Fixture ring;
  RingWriter writer(*RingMemory::Map(ring.fd, kBytes));
  RingReader reader(*RingMemory::Map(ring.fd, kBytes));
  RingReader::Frame frame;
  for (uint64_t head : {kBytes + 8, uint64_t{4}, ~uint64_t{7}, uint64_t{1} << 63}) {
    ring.raw.header().head.store(head);
    EXPECT_EQ(reader.Peek(&frame), RingReader::State::kBroken) << head;
  }
  bool broken = false;
  ring.raw.header().tail.store(uint64_t{1} << 40);
  EXPECT_EQ(writer.Reserve(kBytes - 8, &broken) != nullptr, !broken);
  writer.Commit(kBytes / 2, 0);
  EXPECT_EQ(writer.Reserve(kBytes / 2, &broken), nullptr);
  EXPECT_TRUE(broken);
}

TEST(RingTest, FramesNeverLeaveTheRingWhateverTheMemorySays) {
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3000; ++round) {
    Fixture ring;
    RingReader reader(*RingMemory::Map(ring.fd, kBytes));
    auto* words = reinterpret_cast<uint64_t*>(ring.raw.data());
    for (uint64_t i = 0; i < kBytes / 8; ++i) {
      // Mostly plausible headers, so that the reader gets far.
      words[i] = random() % 4 == 0 ? random() : (random() % 64) | (random() % 5) << 32;
    }
    ring.raw.header().head.store(random() % 3 == 0 ? random() : random() % (kBytes / 8 + 2) * 8);
    RingReader::Frame frame;
    uint64_t sum = 0;
    for (int i = 0; i < 100 && reader.Peek(&frame) == RingReader::State::kFrame; ++i) {
      // AddressSanitizer does not know these bounds; the mapping's end does, and so does this.
      ASSERT_LE(frame.size, kBytes);
      for (uint32_t j = 0; j < frame.size; ++j) sum += static_cast<unsigned char>(frame.payload[j]);
      reader.Consume(frame);
      if (random() % 10 == 0) ring.raw.header().head.store(random());
    }
    (void)sum;
  }
}

// A channel whose peer shook hands properly and then scribbles over both rings.
TEST(RingTest, AChannelSurvivesAHostilePeer) {
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    auto sockets = SocketPair();
    ASSERT_TRUE(sockets.ok());
    Fixture theirs;
    ASSERT_TRUE(SendHello(sockets->second, theirs.fd, kBytes).ok());
    auto channel = MakeSharedMemoryChannel(std::move(sockets->first),
                                           {.ring_bytes = kBytes,
                                            .send_timeout = std::chrono::milliseconds(1),
                                            .handshake_timeout = std::chrono::milliseconds(1)});
    ASSERT_TRUE(channel.ok()) << channel.status();
    auto hello = ReceiveHello(sockets->second, std::chrono::seconds(1));
    ASSERT_TRUE(hello.ok());
    RingMemory ours = *RingMemory::Map(hello->ring, hello->ring_bytes);
    for (int step = 0; step < 20; ++step) {
      RingMemory& target = random() % 2 == 0 ? ours : theirs.raw;
      auto* words = reinterpret_cast<uint64_t*>(&target.header());
      words[random() % (random() % 2 == 0 ? 32 : (4096 + kBytes) / 8)] = random() % (2 * kBytes);
      if (random() % 4 == 0) words[random() % 32] = random();
      (*channel)->SendBytes(std::string(random() % 6000, 'x')).IgnoreError();
      std::string_view bytes;
      (*channel)->ReceiveBytes(&bytes, Duration::zero()).IgnoreError();
    }
  }
}

TEST(SealedMemoryTest, MemoryThatCanShrinkIsRefused) {
  UniqueFd open_fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(open_fd.get(), 1 << 16), 0);
  EXPECT_FALSE(CheckSealedMemory(open_fd.get(), 4096).ok());
  UniqueFd file(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(CheckSealedMemory(file.get(), 4096).ok());
  auto sealed = CreateSealedMemory("test", 4096);
  ASSERT_TRUE(sealed.ok());
  EXPECT_TRUE(CheckSealedMemory(sealed->get(), 4096).ok());
  EXPECT_FALSE(CheckSealedMemory(sealed->get(), 4097).ok());
  EXPECT_NE(ftruncate(sealed->get(), 0), 0);
}

}  // namespace
}  // namespace shardway::wire
