// Puts JAX's per-shard calls together again: consecutive puts (or copies) of equal shape to
// distinct devices become shards 0, 1, … of one array, and one message.
//
// One group is open at a time. It is closed by
//   * a call that does not fit into it: another kind, another shape, a device that it already has;
//   * having a shard on every device of the cluster;
//   * Flush(), which every other call into the session that may depend on it makes first.
// There is no timer: an array that nothing depends on need not exist yet.
//
// Host bytes: a shard of up to kStageBytes, or one whose bytes are only valid during the call, is
// copied at once. Larger ones are read when the group closes, which is when their `done` event
// completes; until then JAX keeps them alive and unchanged. Equal bytes at equal addresses travel
// once.
//
// Thread-safe. Flush costs one load when no group is open.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pjrt_c_api.h"
#include "shardway/base/mutex.h"
#include "shardway/client/session.h"
#include "shardway/pjrt_plugin/array.h"
#include "shardway/pjrt_plugin/event.h"

namespace shardway::pjrt_plugin {

class ShardGrouper {
 public:
  explicit ShardGrouper(PJRT_Client* client) : client_(client) {}
  ~ShardGrouper();

  struct HostBytes {
    const void* data = nullptr;
    absl::Span<const int64_t> byte_strides;  // empty: dense row-major
    bool only_during_call = false;
  };
  struct PutShard {
    PJRT_Buffer* buffer;
    std::shared_ptr<EventState> done_with_host_bytes;
  };
  PutShard Put(ElementType element, PJRT_Buffer_Type type, absl::Span<const int64_t> dims,
               const HostBytes& bytes, PJRT_Memory* memory);

  // A copy of `source` in `memory`.
  PJRT_Buffer* Copy(PJRT_Buffer* source, PJRT_Memory* memory);

  void Flush() {
    if (open_.load(std::memory_order_acquire)) FlushOpen();
  }

 private:
  static constexpr size_t kStageBytes = 128 << 10;

  struct Group {
    Array* array;  // open, held
    std::vector<PJRT_Memory*> memories;
    bool Fits(ElementType element, absl::Span<const int64_t> dims, const PJRT_Memory* memory) const;
  };
  struct PutGroup : Group {
    std::vector<client::HostShard> shards;
    struct Staged {
      const void* origin;
      std::unique_ptr<char[]> bytes;
    };
    std::vector<Staged> staged;
    std::shared_ptr<EventState> sent;  // completes when unstaged bytes have been read
  };
  struct CopyGroup : Group {
    std::vector<Array*> sources;  // held
    std::vector<uint32_t> shards;
  };
  using Open = std::variant<std::monostate, PutGroup, CopyGroup>;
  // Completed by the caller once no lock is held.
  using Completions = absl::InlinedVector<std::shared_ptr<EventState>, 2>;

  void FlushOpen();
  void CloseOpen(Completions* completions) SHARDWAY_REQUIRES(mutex_);
  void Close(PutGroup& group, Completions* completions) SHARDWAY_REQUIRES(mutex_);
  void Close(CopyGroup& group) SHARDWAY_REQUIRES(mutex_);
  ArrayId SendCopy(const CopyGroup& group, const Placement* placement) SHARDWAY_REQUIRES(mutex_);
  // Dense bytes of a shard, copied; those of an equal one with the same origin when there is one.
  const void* Stage(PutGroup& group, const HostBytes& bytes) SHARDWAY_REQUIRES(mutex_);
  bool IsFull(const Group& group) const;

  PJRT_Client* const client_;
  std::atomic<bool> open_{false};
  Mutex mutex_;
  Open group_ SHARDWAY_GUARDED_BY(mutex_);
};

}  // namespace shardway::pjrt_plugin
