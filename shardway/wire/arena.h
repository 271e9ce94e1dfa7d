// The session arena: one sealed memfd through which bulk bytes go beside the messages. The
// controller creates it (zero pages, none of them backed until written), the client allocates
// blocks in it, workers read and write the blocks that messages name.
//
//   CreateArena      controller: the descriptor to hand out
//   ArenaView        worker: a mapping with bounds checks
//   ArenaAllocator   client: the mapping, and who owns which part of it
//
// The memfd is sealed against any change of its size, so a mapping can't fault. Its contents belong
// to whoever the protocol says; a reader copies before it trusts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardway/base/mutex.h"
#include "shardway/wire/unique_fd.h"

namespace shardway::wire {

// Half of this machine's memory (of its cgroup, where that is less), at least 64 MiB.
uint64_t DefaultArenaBytes();

// A memfd of `bytes` (rounded up to pages), sealed. Costs no memory until written.
absl::StatusOr<UniqueFd> CreateArena(uint64_t bytes);

// A mapped arena. Immutable; thread-safe.
class ArenaView {
 public:
  // `bytes`: what the message beside the descriptor said. INVALID_ARGUMENT when the descriptor is
  // not a memfd of at least this size whose size is sealed.
  static absl::StatusOr<std::unique_ptr<ArenaView>> Map(UniqueFd fd, uint64_t bytes);
  ~ArenaView();
  ArenaView(const ArenaView&) = delete;
  ArenaView& operator=(const ArenaView&) = delete;

  uint64_t bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }

  // The block [offset, offset + size). OUT_OF_RANGE when it is not wholly inside.
  absl::StatusOr<absl::Span<char>> Block(uint64_t offset, uint64_t size) const;

 private:
  ArenaView(UniqueFd fd, char* base, uint64_t bytes)
      : fd_(std::move(fd)), base_(base), bytes_(bytes) {}

  UniqueFd fd_;
  char* base_;
  uint64_t bytes_;
};

// Hands out blocks of an arena: best fit, neighbours coalesce when freed. The first 256 MiB stay
// warm (their pages are not given back); beyond them, what is freed goes back to the system in
// large pieces. Thread-safe.
class ArenaAllocator {
 public:
  explicit ArenaAllocator(std::unique_ptr<ArenaView> view);

  // A block of at least `size` bytes (size 0 counts as 1), aligned to kArenaAlignment; nullopt when
  // no free stretch is long enough.
  std::optional<uint64_t> Allocate(uint64_t size);
  // Frees a block that Allocate returned. Unknown offsets are ignored, and false is returned.
  bool Free(uint64_t offset);

  char* Address(uint64_t offset) const;
  uint64_t bytes() const { return view_->bytes(); }
  uint64_t used_bytes() const;

 private:
  void InsertFree(uint64_t offset, uint64_t size) SHARDWAY_REQUIRES(mutex_);
  void EraseFree(std::map<uint64_t, uint64_t>::iterator it) SHARDWAY_REQUIRES(mutex_);
  // Gives the pages of a free stretch back.
  void Release(uint64_t offset, uint64_t size);

  const std::unique_ptr<ArenaView> view_;
  mutable Mutex mutex_;
  std::map<uint64_t, uint64_t> free_ SHARDWAY_GUARDED_BY(mutex_);  // offset → size
  std::set<std::pair<uint64_t, uint64_t>> free_by_size_ SHARDWAY_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, uint64_t> used_ SHARDWAY_GUARDED_BY(mutex_);  // offset → size
  uint64_t used_bytes_ SHARDWAY_GUARDED_BY(mutex_) = 0;
  uint64_t unreleased_ SHARDWAY_GUARDED_BY(mutex_) = 0;  // freed beyond the warm part
};

}  // namespace shardway::wire
