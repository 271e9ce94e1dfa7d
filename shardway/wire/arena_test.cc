#include "shardway/wire/arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <random>

#include "shardway/wire/protocol.h"

namespace shardway::wire {
namespace {

std::unique_ptr<ArenaView> MakeView(uint64_t bytes) {
  auto fd = CreateArena(bytes);
  EXPECT_TRUE(fd.ok()) << fd.status();
  auto view = ArenaView::Map(*std::move(fd), bytes);
  EXPECT_TRUE(view.ok()) << view.status();
  return *std::move(view);
}

TEST(ArenaTest, TwoMappingsShareTheirBytes) {
  auto fd = CreateArena(1 << 20);
  ASSERT_TRUE(fd.ok());
  auto other = ArenaView::Map(UniqueFd(dup(fd->get())), 1 << 20);
  auto view = ArenaView::Map(*std::move(fd), 1 << 20);
  ASSERT_TRUE(view.ok() && other.ok());
  std::strcpy((*view)->Block(4096, 64)->data(), "hello");
  EXPECT_STREQ((*other)->Block(4096, 64)->data(), "hello");
}

TEST(ArenaTest, BlocksOutsideAreRefused) {
  auto view = MakeView(8192);
  EXPECT_TRUE(view->Block(0, 8192).ok());
  EXPECT_TRUE(view->Block(8192, 0).ok());
  EXPECT_EQ(view->Block(1, 8192).status().code(), absl::StatusCode::kOutOfRange);
  const uint64_t max = std::numeric_limits<uint64_t>::max();
  EXPECT_FALSE(view->Block(max, 1).ok());
  EXPECT_FALSE(view->Block(64, max - 32).ok());
}

TEST(ArenaTest, AnArenaSmallerThanAnnouncedIsRefused) {
  auto fd = CreateArena(4096);
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(ArenaView::Map(*std::move(fd), 8192).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ArenaTest, ALargeArenaCostsNothingUntilWritten) {
  auto view = MakeView(uint64_t{64} << 30);
  view->Block((uint64_t{63} << 30), 1)->data()[0] = 1;
  EXPECT_EQ(view->bytes(), uint64_t{64} << 30);
}

TEST(ArenaAllocatorTest, FreedNeighboursCoalesce) {
  ArenaAllocator arena(MakeView(4096));
  std::vector<uint64_t> blocks;
  while (auto block = arena.Allocate(64)) blocks.push_back(*block);
  EXPECT_EQ(blocks.size(), 64u);
  EXPECT_FALSE(arena.Allocate(1).has_value());
  for (size_t i = 0; i < blocks.size(); i += 2) EXPECT_TRUE(arena.Free(blocks[i]));
  EXPECT_FALSE(arena.Allocate(128).has_value());
  for (size_t i = 1; i < blocks.size(); i += 2) EXPECT_TRUE(arena.Free(blocks[i]));
  EXPECT_EQ(arena.used_bytes(), 0u);
  EXPECT_TRUE(arena.Allocate(4096).has_value());
  EXPECT_FALSE(arena.Free(12));
}

TEST(ArenaAllocatorTest, ImpossibleSizes) {
  ArenaAllocator arena(MakeView(4096));
  EXPECT_FALSE(arena.Allocate(std::numeric_limits<uint64_t>::max()).has_value());
  EXPECT_FALSE(arena.Allocate(4097).has_value());
  EXPECT_TRUE(arena.Allocate(0).has_value());
}

TEST(ArenaAllocatorTest, MemoryBeyondTheWarmPartIsGivenBack) {
  constexpr uint64_t kMiB = 1 << 20;
  ArenaAllocator arena(MakeView(512 * kMiB));
  const auto warm = arena.Allocate(200 * kMiB);
  const auto across = arena.Allocate(100 * kMiB + 100);
  const auto neighbour = arena.Allocate(100);
  ASSERT_TRUE(warm.has_value() && across.has_value() && neighbour.has_value());
  const uint64_t cold = 290 * kMiB;
  *arena.Address(*warm) = 1;
  *arena.Address(*across) = 1;
  *arena.Address(cold) = 1;
  *arena.Address(*neighbour) = 1;
  EXPECT_TRUE(arena.Free(*across));
  EXPECT_TRUE(arena.Free(*warm));
  EXPECT_EQ(*arena.Address(*warm), 1);
  EXPECT_EQ(*arena.Address(*across), 1);
  EXPECT_EQ(*arena.Address(cold), 0);
  EXPECT_EQ(*arena.Address(*neighbour), 1);  // a page shared with a neighbour stays
}

TEST(ArenaAllocatorTest, RandomBlocksNeverOverlap) {
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  constexpr uint64_t kBytes = 1 << 20;
  ArenaAllocator arena(MakeView(kBytes));
  std::map<uint64_t, uint64_t> blocks;  // offset → size
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0 || blocks.empty()) {
      const uint64_t size = random() % 10 == 0 ? random() % 100'000 : random() % 2000;
      const auto offset = arena.Allocate(size);
      if (!offset.has_value()) continue;
      ASSERT_EQ(*offset % kArenaAlignment, 0u);
      ASSERT_LE(*offset + size, kBytes);
      const auto next = blocks.lower_bound(*offset);
      if (next != blocks.end()) {
        ASSERT_LE(*offset + std::max<uint64_t>(size, 1), next->first);
      }
      if (next != blocks.begin()) {
        const auto previous = std::prev(next);
        ASSERT_LE(previous->first + std::max<uint64_t>(previous->second, 1), *offset);
      }
      blocks.emplace(*offset, size);
    } else {
      auto victim = blocks.begin();
      std::advance(victim, random() % std::min<size_t>(blocks.size(), 50));
      ASSERT_TRUE(arena.Free(victim->first));
      blocks.erase(victim);
    }
  }
  for (const auto& [offset, size] : blocks) ASSERT_TRUE(arena.Free(offset));
  EXPECT_EQ(arena.used_bytes(), 0u);
  EXPECT_TRUE(arena.Allocate(kBytes).has_value());
}

}  // namespace
}  // namespace shardway::wire
