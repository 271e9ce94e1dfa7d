#include "shardway/comm/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace shardway::comm {
namespace {

class ArenaTest : public testing::Test {
 protected:
  ArenaTest() {
    fd_ = ::memfd_create("shardway-test", MFD_CLOEXEC);
    EXPECT_EQ(::ftruncate(fd_, static_cast<off_t>(SharedSegment::Bytes(2))), 0);
    auto segment = SharedSegment::Map(fd_, SharedSegment::Bytes(2), 2);
    EXPECT_TRUE(segment.ok()) << segment.status();
    segment_ = *std::move(segment);
    arena_ = std::make_unique<Arena>(segment_.get(), 0);
  }
  ~ArenaTest() override { ::close(fd_); }

  // A block for host 1, written and sealed.
  uint64_t Write(uint64_t bytes) {
    const uint64_t block = arena_->Allocate(bytes, {1});
    EXPECT_NE(block, Arena::kNoSpace);
    std::memset(segment_->payload(0, block), 1, bytes);
    arena_->Seal(block);
    return block;
  }
  void Read(uint64_t block) { segment_->header(0, block).read_by[1].store(1); }
  // What the segment takes of the machine's memory.
  int64_t MemoryBytes() const {
    struct stat file {};
    EXPECT_EQ(::fstat(fd_, &file), 0);
    return file.st_blocks * 512;
  }

  int fd_ = -1;
  std::unique_ptr<SharedSegment> segment_;
  std::unique_ptr<Arena> arena_;
};

constexpr int64_t kBlock = 32 << 20;

TEST_F(ArenaTest, ReadBlocksAreUsedAgain) {
  const uint64_t first = Write(1000);
  EXPECT_FALSE(arena_->IsRead(first));
  EXPECT_NE(Write(1000), first);
  Read(first);
  EXPECT_TRUE(arena_->IsRead(first));
  EXPECT_EQ(Write(1000), first);
}

TEST_F(ArenaTest, ALostReaderHoldsNothing) {
  const uint64_t block = Write(1000);
  arena_->ReaderLost(1);
  EXPECT_TRUE(arena_->IsRead(block));
}

TEST_F(ArenaTest, TrimGivesIdleMemoryBack) {
  const uint64_t block = Write(kBlock);
  EXPECT_GE(MemoryBytes(), kBlock);
  arena_->Trim();
  arena_->Trim();
  EXPECT_GE(MemoryBytes(), kBlock) << "it has not been read";
  Read(block);
  arena_->Trim();
  EXPECT_LT(MemoryBytes(), kBlock / 8);
  Read(Write(kBlock));
  arena_->Trim();
  EXPECT_GE(MemoryBytes(), kBlock) << "it was used just now, and will be again";
  arena_->Trim();
  EXPECT_LT(MemoryBytes(), kBlock / 8);
}

TEST_F(ArenaTest, WhatCanNeverFitIsRefused) {
  EXPECT_EQ(arena_->Allocate(Arena::kMaxPayload + 1, {1}), Arena::kNoSpace);
}

}  // namespace
}  // namespace shardway::comm
