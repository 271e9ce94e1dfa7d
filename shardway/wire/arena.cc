#include "shardway/wire/arena.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/sealed_memory.h"

namespace shardway::wire {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kWarmBytes = uint64_t{256} << 20;
// Giving pages back costs system calls and, when they are used again, page faults.
constexpr uint64_t kReleaseBytes = 16 << 20;

constexpr uint64_t RoundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

uint64_t DefaultArenaBytes() {
  struct sysinfo info;
  uint64_t memory = uint64_t{4} << 30;
  if (sysinfo(&info) == 0) memory = uint64_t{info.totalram} * info.mem_unit;
  std::ifstream file("/sys/fs/cgroup/memory.max");
  uint64_t limit;
  if (file >> limit) memory = std::min(memory, limit);
  return std::max<uint64_t>(memory / 2, uint64_t{64} << 20) / kPage * kPage;
}

absl::StatusOr<UniqueFd> CreateArena(uint64_t bytes) {
  return CreateSealedMemory("shardway-arena", RoundUp(std::max<uint64_t>(bytes, 1), kPage));
}

absl::StatusOr<std::unique_ptr<ArenaView>> ArenaView::Map(UniqueFd fd, uint64_t bytes) {
  if (bytes == 0) return absl::InvalidArgumentError("an arena of 0 bytes");
  SHARDWAY_RETURN_IF_ERROR(CheckSealedMemory(fd.get(), bytes));
  void* base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (base == MAP_FAILED) return ErrnoStatus(errno, "mapping the session's arena");
  return std::unique_ptr<ArenaView>(new ArenaView(std::move(fd), static_cast<char*>(base), bytes));
}

ArenaView::~ArenaView() { munmap(base_, bytes_); }

absl::StatusOr<absl::Span<char>> ArenaView::Block(uint64_t offset, uint64_t size) const {
  if (offset > bytes_ || size > bytes_ - offset) {
    return absl::OutOfRangeError(absl::StrCat("block of ", size, " bytes at ", offset,
                                              " is outside the arena of ", bytes_, " bytes"));
  }
  return absl::Span<char>(base_ + offset, size);
}

ArenaAllocator::ArenaAllocator(std::unique_ptr<ArenaView> view) : view_(std::move(view)) {
  MutexLock lock(mutex_);
  InsertFree(0, view_->bytes() / kArenaAlignment * kArenaAlignment);
}

std::optional<uint64_t> ArenaAllocator::Allocate(uint64_t size) {
  if (size > view_->bytes()) return std::nullopt;
  size = RoundUp(std::max<uint64_t>(size, 1), kArenaAlignment);
  MutexLock lock(mutex_);
  const auto best = free_by_size_.lower_bound({size, 0});
  if (best == free_by_size_.end()) return std::nullopt;
  const auto [stretch, offset] = *best;
  EraseFree(free_.find(offset));
  if (stretch > size) InsertFree(offset + size, stretch - size);
  used_.emplace(offset, size);
  used_bytes_ += size;
  return offset;
}

bool ArenaAllocator::Free(uint64_t offset) {
  MutexLock lock(mutex_);
  const auto found = used_.find(offset);
  if (found == used_.end()) return false;
  uint64_t size = found->second;
  used_.erase(found);
  used_bytes_ -= size;
  if (offset + size > kWarmBytes) unreleased_ += size;
  auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      size += previous->second;
      EraseFree(previous);
    }
  }
  if (next != free_.end() && next->first == offset + size) {
    size += next->second;
    EraseFree(next);
  }
  InsertFree(offset, size);
  if (unreleased_ >= kReleaseBytes) {
    unreleased_ = 0;
    Release(offset, size);
  }
  return true;
}

void ArenaAllocator::Release(uint64_t offset, uint64_t size) {
  const uint64_t from = std::max(RoundUp(offset, kPage), kWarmBytes);
  const uint64_t to = (offset + size) / kPage * kPage;
  if (from < to) madvise(Address(from), to - from, MADV_REMOVE);
}

char* ArenaAllocator::Address(uint64_t offset) const { return view_->Block(offset, 0)->data(); }

uint64_t ArenaAllocator::used_bytes() const {
  MutexLock lock(mutex_);
  return used_bytes_;
}

void ArenaAllocator::InsertFree(uint64_t offset, uint64_t size) {
  if (size == 0) return;
  free_.emplace(offset, size);
  free_by_size_.emplace(size, offset);
}

void ArenaAllocator::EraseFree(std::map<uint64_t, uint64_t>::iterator it) {
  free_by_size_.erase({it->second, it->first});
  free_.erase(it);
}

}  // namespace shardway::wire
