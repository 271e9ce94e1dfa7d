#include "shardway/pjrt_plugin/external_reference.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/pjrt_plugin/buffer.h"
#include "shardway/pjrt_plugin/client.h"
#include "shardway/pjrt_plugin/error.h"

namespace shardway::pjrt_plugin {
namespace {

constexpr size_t kAlignment = 64;  // what vectorised readers like

absl::Status NoReference(const PJRT_Buffer& buffer) {
  return absl::FailedPreconditionError(absl::StrCat(
      "shard ", buffer.shard, " of an array has no external reference: add one first"));
}

}  // namespace

absl::Status ExternalReferences::Add(PJRT_Buffer& buffer) {
  {
    MutexLock lock(mutex_);
    if (auto found = copies_.find(&buffer); found != copies_.end()) {
      ++found->second.references;
      return absl::OkStatus();
    }
  }
  PJRT_Client& client = *buffer.array->client();
  client.grouper.Flush();
  SHARDWAY_RETURN_IF_ERROR(CheckUsable(buffer));
  const size_t bytes = buffer.array->shape().bytes;
  const size_t room = std::max<size_t>((bytes + kAlignment - 1) / kAlignment, 1) * kAlignment;
  std::unique_ptr<void, Free> copy(std::aligned_alloc(kAlignment, room));
  if (copy == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a copy of ", bytes, " bytes"));
  }
  auto state = std::make_shared<EventState>();
  client.session->Read(buffer.array->id(), buffer.shard, copy.get(), bytes,
                       [state](const absl::Status& status) { state->Complete(status); });
  SHARDWAY_RETURN_IF_ERROR(state->Await());
  MutexLock lock(mutex_);
  Copy& kept = copies_[&buffer];
  if (kept.references++ == 0) kept.bytes = std::move(copy);  // else another thread was faster
  return absl::OkStatus();
}

absl::Status ExternalReferences::Drop(const PJRT_Buffer& buffer) {
  MutexLock lock(mutex_);
  auto found = copies_.find(&buffer);
  if (found == copies_.end()) return NoReference(buffer);
  if (--found->second.references == 0) copies_.erase(found);
  return absl::OkStatus();
}

absl::StatusOr<void*> ExternalReferences::Data(const PJRT_Buffer& buffer) {
  MutexLock lock(mutex_);
  auto found = copies_.find(&buffer);
  if (found == copies_.end()) return NoReference(buffer);
  return found->second.bytes.get();
}

absl::StatusOr<void*> ExternalReferences::Pin(PJRT_Buffer& buffer) {
  SHARDWAY_RETURN_IF_ERROR(Add(buffer));
  MutexLock lock(mutex_);
  Copy& copy = copies_[&buffer];
  if (copy.pinned) {
    --copy.references;
  } else {
    copy.pinned = true;
    num_pinned_.fetch_add(1, std::memory_order_relaxed);
  }
  return copy.bytes.get();
}

void ExternalReferences::Forget(const PJRT_Buffer& buffer) {
  if (num_pinned_.load(std::memory_order_relaxed) == 0) return;
  MutexLock lock(mutex_);
  auto found = copies_.find(&buffer);
  if (found == copies_.end() || !found->second.pinned) return;
  num_pinned_.fetch_sub(1, std::memory_order_relaxed);
  copies_.erase(found);  // whoever has a reference keeps the buffer
}

PJRT_Error* BufferIncreaseExternalReferenceCount(
    PJRT_Buffer_IncreaseExternalReferenceCount_Args* args) {
  SHARDWAY_PJRT_RETURN_IF_ERROR(
      args->buffer->array->client()->external_references.Add(*args->buffer));
  return nullptr;
}

PJRT_Error* BufferDecreaseExternalReferenceCount(
    PJRT_Buffer_DecreaseExternalReferenceCount_Args* args) {
  SHARDWAY_PJRT_RETURN_IF_ERROR(
      args->buffer->array->client()->external_references.Drop(*args->buffer));
  return nullptr;
}

PJRT_Error* BufferOpaqueDeviceMemoryDataPointer(
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args* args) {
  absl::StatusOr<void*> data =
      args->buffer->array->client()->external_references.Data(*args->buffer);
  if (!data.ok()) return ToError(std::move(data).status());
  args->device_memory_ptr = *data;
  return nullptr;
}

PJRT_Error* BufferUnsafePointer(PJRT_Buffer_UnsafePointer_Args* args) {
  absl::StatusOr<void*> data =
      args->buffer->array->client()->external_references.Pin(*args->buffer);
  if (!data.ok()) return ToError(std::move(data).status());
  args->buffer_pointer = reinterpret_cast<uintptr_t>(*data);
  return nullptr;
}

}  // namespace shardway::pjrt_plugin
