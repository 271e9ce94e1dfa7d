#include "shardway/pjrt_plugin/array.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/pjrt_plugin/client.h"

namespace shardway::pjrt_plugin {
namespace {

constexpr Duration kLateTimeout = std::chrono::seconds(60);

}  // namespace

Array* Array::NewResult(PJRT_Client* client, ArrayId id, ShardShapeRef shape,
                        const Placement* placement, std::shared_ptr<EventState> run) {
  static_assert(alignof(Array) % alignof(PJRT_Buffer) == 0);
  const auto n = static_cast<uint32_t>(placement->memories.size());
  void* memory = ::operator new(sizeof(Array) + n * sizeof(PJRT_Buffer));
  auto* array = new (memory) Array(client, std::move(shape), n, n);
  array->id_ = id;
  array->placement_ = placement;
  array->num_shards_ = n;
  array->run_ = std::move(run);
  for (uint32_t i = 0; i < n; ++i) {
    new (array->shards() + i)
        PJRT_Buffer{.array = array, .memory = placement->memories[i], .shard = i, .alone = false};
  }
  return array;
}

Array* Array::NewInternal(PJRT_Client* client, ArrayId id, ShardShapeRef shape,
                          const Placement* placement) {
  auto* array = NewOpen(client, std::move(shape));
  array->Close(id, placement);
  return array;
}

Array* Array::NewOpen(PJRT_Client* client, ShardShapeRef shape) {
  return new (::operator new(sizeof(Array))) Array(client, std::move(shape), 1, 1);
}

Array* Array::NewLate(PJRT_Client* client, ShardShapeRef shape) {
  Array* array = NewOpen(client, std::move(shape));
  array->made_ = std::make_shared<EventState>();
  return array;
}

PJRT_Buffer* Array::AddShard(PJRT_Memory* memory) {
  data_.fetch_add(1, std::memory_order_relaxed);
  objects_.fetch_add(1, std::memory_order_relaxed);
  return new PJRT_Buffer{.array = this, .memory = memory, .shard = num_shards_++, .alone = true};
}

void Array::Close(ArrayId id, const Placement* placement) {
  id_ = id;
  placement_ = placement;
  Made();
}

void Array::CloseFailed(absl::Status error, const Placement* placement) {
  error_ = std::move(error);
  placement_ = placement;
  Made();
}

void Array::Made() {
  if (made_ == nullptr) return;
  made_->Complete(absl::OkStatus());
  std::shared_ptr<EventState> asked;
  {
    MutexLock lock(mutex_);
    if (!told_) asked = ready_;
  }
  if (asked != nullptr) TellWhenReady(std::move(asked));
}

absl::Status Array::AwaitMade() const {
  if (made() || made_->AwaitFor(kLateTimeout)) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("an array of ", shape_->bytes, " bytes is used whose asynchronous transfer has ",
                   "not been completed for ", kLateTimeout / std::chrono::seconds(1), " s"));
}

void Array::Delete(PJRT_Buffer* buffer) {
  if (buffer->deleted.exchange(true, std::memory_order_acq_rel)) return;
  any_deleted_.store(true, std::memory_order_release);
  DropData();
}

void Array::Destroy(PJRT_Buffer* buffer) {
  if (!buffer->deleted.exchange(true, std::memory_order_acq_rel)) {
    DropData();
  }
  if (buffer->alone) {
    delete buffer;
  }
  DropObject();
}

void Array::Consume() {
  any_deleted_.store(true, std::memory_order_release);
  if (!consumed_.exchange(true, std::memory_order_acq_rel)) {
    FreeHandle();
  }
}

void Array::Hold() {
  data_.fetch_add(1, std::memory_order_relaxed);
  objects_.fetch_add(1, std::memory_order_relaxed);
}

void Array::Release() {
  DropData();
  DropObject();
}

void Array::DropData() {
  if (data_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    FreeHandle();
  }
}

void Array::DropObject() {
  if (objects_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    this->~Array();
    ::operator delete(this);
  }
}

void Array::FreeHandle() {
  if (freed_.exchange(true, std::memory_order_acq_rel)) return;
  if (!id_.valid()) return;                 // never made: no one wanted it, or it failed
  if (client_->session == nullptr) return;  // closed at exit: everything is free
  client_->session->Free(id_);
  if (assembled_.load(std::memory_order_acquire)) {
    client_->assemblies.Forget(id_);
  }
}

std::shared_ptr<EventState> Array::Ready() {
  if (run_ != nullptr) return run_;
  std::shared_ptr<EventState> state;
  {
    MutexLock lock(mutex_);
    if (ready_ != nullptr) return ready_;
    state = ready_ = std::make_shared<EventState>();
    if (!made()) return state;  // Made sees it
    told_ = true;
  }
  TellWhenReady(state);
  return state;
}

void Array::TellWhenReady(std::shared_ptr<EventState> state) {
  if (!error_.ok()) return state->Complete(error_);
  client_->session->OnReady(id_, [state](const absl::Status& status) { state->Complete(status); });
}

}  // namespace shardway::pjrt_plugin
