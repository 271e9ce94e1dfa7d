// This host's payloads in shared memory: blocks that live until every reader has read them. The
// free-list is private to the process; readers only set their byte in a block's header.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "shardway/base/mutex.h"
#include "shardway/comm/shared_segment.h"

namespace shardway::comm {

// Thread-safe.
class Arena {
 public:
  Arena(SharedSegment* segment, int host);

  static constexpr uint64_t kNoSpace = 0;  // the first page is never given away
  // A block for `bytes` of payload, read by `readers` and held by this host until Seal. kNoSpace:
  // full of payloads that have not been read; the doorbell will ring when one has.
  uint64_t Allocate(uint64_t bytes, absl::Span<const int> readers);
  // This host neither writes nor reads the block any more; the readers may still.
  void Seal(uint64_t block) { segment_.header(host_, block).read_by[host_].store(1); }
  // Gives back a block that nobody was told of.
  void Free(uint64_t block);
  // `host` will read nothing any more.
  void ReaderLost(int host);
  // Whether all readers of `block` have read it (or it is freed already).
  bool IsRead(uint64_t block);
  // Gives memory back to the system when no block is in use nor was since the last call.
  void Trim();

  // What could never be allocated, however empty.
  static constexpr uint64_t kMaxPayload = kArenaBytes - (uint64_t{1} << 20);

 private:
  struct Block {
    uint64_t offset = 0;
    uint64_t size = 0;
    std::vector<int> readers;  // that have not been seen to have read it
  };
  void Collect() SHARDWAY_REQUIRES(mutex_);
  bool StillUnread(Block& block) SHARDWAY_REQUIRES(mutex_);
  void Return(const Block& block) SHARDWAY_REQUIRES(mutex_);
  uint64_t Take(uint64_t size) SHARDWAY_REQUIRES(mutex_);

  SharedSegment& segment_;
  const int host_;
  Mutex mutex_;
  std::map<uint64_t, uint64_t> free_ SHARDWAY_GUARDED_BY(mutex_);  // offset → size, not adjacent
  std::deque<Block> used_ SHARDWAY_GUARDED_BY(mutex_);             // oldest first
  std::vector<bool> lost_ SHARDWAY_GUARDED_BY(mutex_);
  uint64_t touched_ SHARDWAY_GUARDED_BY(mutex_) = 0;  // end of what may have memory
  bool idle_ SHARDWAY_GUARDED_BY(mutex_) = true;      // no allocation since the last Trim
};

}  // namespace shardway::comm
