// A whole array behind the per-shard buffers that PJRT hands out.
//
// JAX works in PJRT_Buffers, one per shard; the session works in arrays, one handle whatever the
// number of shards. An Array is what the buffers of one array share: handle, shape, placement,
// readiness. It counts twice:
//   * data: shards that are neither deleted nor destroyed, and holds. At zero the session's handle
//   is
//     freed, with one message for all shards.
//   * objects: buffers not yet destroyed, and holds. At zero the Array itself goes.
// An array that a run consumed (donation) frees its handle at once; its buffers are deleted then.
//
// An Array begins *open* when its shards arrive one by one (shard_grouper.h) and has neither handle
// nor placement before it is closed; results of runs begin closed, with their N buffers in one
// allocation.
//
// A *late* array's bytes come later still, from another thread (async_transfer.h): uses wait for
// it.
//
// Thread-safe, except AddShard and Close, which the grouper serialises.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "pjrt_c_api.h"
#include "shardway/base/ids.h"
#include "shardway/base/mutex.h"
#include "shardway/pjrt_plugin/event.h"
#include "shardway/pjrt_plugin/placement.h"
#include "shardway/pjrt_plugin/shard_shape.h"

namespace shardway::pjrt_plugin {
class Array;
}  // namespace shardway::pjrt_plugin

struct PJRT_Buffer {
  shardway::pjrt_plugin::Array* array;
  PJRT_Memory* memory;
  uint32_t shard;
  bool alone;  // allocated by itself, not in its array's block
  std::atomic<bool> deleted{false};
};

namespace shardway::pjrt_plugin {

class Array {
 public:
  // A run's result. `run` completes with the run.
  static Array* NewResult(PJRT_Client* client, ArrayId id, ShardShapeRef shape,
                          const Placement* placement, std::shared_ptr<EventState> run);
  // An array without buffers of its own, for a handle that only this process uses. Held once.
  static Array* NewInternal(PJRT_Client* client, ArrayId id, ShardShapeRef shape,
                            const Placement* placement);
  // An open array, held once.
  static Array* NewOpen(PJRT_Client* client, ShardShapeRef shape);
  // An open array that may be used before it is closed. Held once.
  static Array* NewLate(PJRT_Client* client, ShardShapeRef shape);

  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  PJRT_Buffer* AddShard(PJRT_Memory* memory);  // open arrays
  void Close(ArrayId id, const Placement* placement);
  // Closes an array that could not be made: uses of it give `error`.
  void CloseFailed(absl::Status error, const Placement* placement);
  // Open arrays: whether anybody but the one hold still wants the data.
  bool wanted() const { return data_.load(std::memory_order_acquire) > 1; }

  // False for a late array that is not closed yet.
  bool made() const { return made_ == nullptr || made_->ready(); }
  // Waits until it is. DEADLINE_EXCEEDED when that takes too long.
  absl::Status AwaitMade() const;

  // Valid once closed.
  ArrayId id() const { return id_; }
  const absl::Status& error() const { return error_; }
  const Placement* placement() const { return placement_; }
  uint32_t num_shards() const { return num_shards_; }

  const ShardShape& shape() const { return *shape_; }
  const ShardShapeRef& shape_ref() const { return shape_; }
  PJRT_Client* client() const { return client_; }
  PJRT_Buffer* shard(uint32_t index) { return shards() + index; }  // results of runs

  bool any_deleted() const { return any_deleted_.load(std::memory_order_acquire); }
  bool IsDeleted(const PJRT_Buffer& buffer) const {
    return buffer.deleted.load(std::memory_order_acquire) ||
           consumed_.load(std::memory_order_acquire);
  }
  void Delete(PJRT_Buffer* buffer);
  void Destroy(PJRT_Buffer* buffer);  // the buffer, and perhaps this array, are gone afterwards
  void Consume();                     // by donation: deletes all shards

  void Hold();
  void Release();

  // Completes when the array is there on all its devices, or is poisoned.
  std::shared_ptr<EventState> Ready();

  // Part of an entry of the client's assembly cache, which then wants to know of this array's end.
  void MarkAssembled() { assembled_.store(true, std::memory_order_release); }

 private:
  Array(PJRT_Client* client, ShardShapeRef shape, uint32_t data, uint32_t objects)
      : client_(client), shape_(std::move(shape)), data_(data), objects_(objects) {}
  ~Array() = default;

  PJRT_Buffer* shards() { return reinterpret_cast<PJRT_Buffer*>(this + 1); }
  void DropData();
  void DropObject();
  void FreeHandle();
  void Made();
  void TellWhenReady(std::shared_ptr<EventState> state);

  PJRT_Client* const client_;
  const ShardShapeRef shape_;
  ArrayId id_;
  const Placement* placement_ = nullptr;
  uint32_t num_shards_ = 0;
  absl::Status error_;

  std::atomic<uint32_t> data_;
  std::atomic<uint32_t> objects_;
  std::atomic<bool> any_deleted_{false};
  std::atomic<bool> consumed_{false};
  std::atomic<bool> freed_{false};
  std::atomic<bool> assembled_{false};

  std::shared_ptr<EventState> run_;   // results of runs; never changes
  std::shared_ptr<EventState> made_;  // late arrays: completes when it is closed; never changes
  Mutex mutex_;
  std::shared_ptr<EventState> ready_ SHARDWAY_GUARDED_BY(mutex_);
  bool told_ SHARDWAY_GUARDED_BY(mutex_) = false;  // ready_ was completed, or will be
};

}  // namespace shardway::pjrt_plugin
