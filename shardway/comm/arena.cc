#include "shardway/comm/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace shardway::comm {
namespace {

constexpr uint64_t kFirst = 4096;
constexpr uint64_t kAlign = 256;
constexpr uint64_t kKept = 1 << 20;  // so little is not worth giving back

}  // namespace

Arena::Arena(SharedSegment* segment, int host)
    : segment_(*segment), host_(host), lost_(segment->hosts()) {
  free_[kFirst] = kArenaBytes - kFirst;
}

uint64_t Arena::Allocate(uint64_t bytes, absl::Span<const int> readers) {
  if (bytes > kMaxPayload) return kNoSpace;
  const uint64_t size = (bytes + sizeof(BlockHeader) + kAlign - 1) / kAlign * kAlign;
  MutexLock lock(mutex_);
  Collect();
  uint64_t offset = Take(size);
  if (offset == kNoSpace) {
    // Ask to be rung, then look once more: a reader may have finished in between.
    segment_.doorbell(host_).wants_space.store(1, std::memory_order_seq_cst);
    Collect();
    offset = Take(size);
    if (offset == kNoSpace) return kNoSpace;
  }
  touched_ = std::max(touched_, offset + size);
  idle_ = false;
  Block block{offset, size, {host_}};
  BlockHeader& header = segment_.header(host_, offset);
  header.read_by[host_].store(0, std::memory_order_relaxed);
  for (int reader : readers) {
    header.read_by[reader].store(0, std::memory_order_relaxed);
    if (!lost_[reader]) block.readers.push_back(reader);
  }
  used_.push_back(std::move(block));
  return offset;
}

void Arena::Free(uint64_t offset) {
  MutexLock lock(mutex_);
  auto it = std::find_if(used_.begin(), used_.end(),
                         [&](const Block& block) { return block.offset == offset; });
  if (it == used_.end()) return;
  Return(*it);
  used_.erase(it);
}

void Arena::ReaderLost(int host) {
  MutexLock lock(mutex_);
  lost_[host] = true;
}

bool Arena::IsRead(uint64_t offset) {
  MutexLock lock(mutex_);
  for (Block& block : used_) {
    if (block.offset == offset) return !StillUnread(block);
  }
  return true;
}

void Arena::Trim() {
  MutexLock lock(mutex_);
  const bool idle = std::exchange(idle_, true);
  if (!idle || touched_ <= kKept) return;
  Collect();
  if (!used_.empty()) return;
  ::madvise(segment_.arena(host_), touched_ / 4096 * 4096, MADV_REMOVE);
  touched_ = 0;
}

bool Arena::StillUnread(Block& block) {
  BlockHeader& header = segment_.header(host_, block.offset);
  std::erase_if(block.readers, [&](int reader) SHARDWAY_REQUIRES(mutex_) {
    return lost_[reader] || header.read_by[reader].load(std::memory_order_acquire) != 0;
  });
  return !block.readers.empty();
}

void Arena::Collect() {
  std::erase_if(used_, [&](Block& block) SHARDWAY_REQUIRES(mutex_) {
    if (StillUnread(block)) return false;
    Return(block);
    return true;
  });
}

void Arena::Return(const Block& block) {
  auto next = free_.lower_bound(block.offset);
  uint64_t offset = block.offset, size = block.size;
  if (next != free_.end() && offset + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += size;
      return;
    }
  }
  free_[offset] = size;
}

// First fit: the low addresses stay in use, so their pages stay warm and few.
uint64_t Arena::Take(uint64_t size) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < size) continue;
    const uint64_t offset = it->first, rest = it->second - size;
    free_.erase(it);
    if (rest != 0) free_[offset + size] = rest;
    return offset;
  }
  return kNoSpace;
}

}  // namespace shardway::comm
