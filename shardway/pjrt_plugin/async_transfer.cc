#include "shardway/pjrt_plugin/async_transfer.h"

#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/raw_enum.h"
#include "shardway/pjrt_plugin/client.h"
#include "shardway/pjrt_plugin/element_types.h"
#include "shardway/pjrt_plugin/error.h"
#include "shardway/pjrt_plugin/event.h"
#include "shardway/pjrt_plugin/host_transfer.h"

using shardway::ArrayId;
using shardway::MutexLock;
using shardway::pjrt_plugin::Array;
using shardway::pjrt_plugin::Placement;
using shardway::pjrt_plugin::ShardShape;
using shardway::pjrt_plugin::ShardShapeRef;

PJRT_AsyncHostToDeviceTransferManager::~PJRT_AsyncHostToDeviceTransferManager() {
  for (Late& late : buffers_) {
    if (!late.complete) {
      Complete(late, absl::CancelledError("the transfer manager was destroyed before it had all "
                                          "of the array's bytes"));
    }
    if (late.buffer != nullptr) late.buffer->array->Destroy(late.buffer);
  }
}

void PJRT_AsyncHostToDeviceTransferManager::Add(ShardShapeRef shape) {
  Late late;
  sizes_.push_back(shape->bytes);
  late.array = Array::NewLate(client_, std::move(shape));
  late.buffer = late.array->AddShard(memory_);
  buffers_.push_back(std::move(late));
}

absl::Status PJRT_AsyncHostToDeviceTransferManager::Check(int index) const {
  if (index >= 0 && static_cast<size_t>(index) < buffers_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("buffer ", index, " of a transfer manager with ", buffers_.size(), " buffers"));
}

absl::Status PJRT_AsyncHostToDeviceTransferManager::Transfer(int index, const void* data,
                                                             int64_t offset, int64_t size,
                                                             bool last) {
  if (absl::Status status = Check(index); !status.ok()) return status;
  MutexLock lock(mutex_);
  Late& late = buffers_[index];
  if (late.complete) {
    return absl::FailedPreconditionError(
        absl::StrCat("buffer ", index, " of a transfer manager has its last bytes already"));
  }
  const auto bytes = static_cast<int64_t>(late.array->shape().bytes);
  if (offset < 0 || size < 0 || offset > bytes || size > bytes - offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("bytes ", offset, " to ", offset, " + ", size, " of a buffer of ", bytes));
  }
  if (late.bytes == nullptr) late.bytes.reset(new (std::nothrow) char[bytes]());
  if (late.bytes == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes to send"));
  }
  if (size > 0) std::memcpy(late.bytes.get() + offset, data, size);
  if (last) Complete(late, absl::OkStatus());
  return absl::OkStatus();
}

absl::Status PJRT_AsyncHostToDeviceTransferManager::Fail(int index, absl::Status error) {
  if (absl::Status status = Check(index); !status.ok()) return status;
  MutexLock lock(mutex_);
  if (!buffers_[index].complete) Complete(buffers_[index], std::move(error));
  return absl::OkStatus();
}

void PJRT_AsyncHostToDeviceTransferManager::Complete(Late& late, absl::Status error) {
  late.complete = true;
  const Placement* placement = client_->placements.Intern({memory_});
  if (error.ok() && !late.array->wanted()) {
    error = absl::FailedPreconditionError("the array was deleted before its bytes were there");
  }
  if (error.ok()) {
    const absl::StatusOr<ArrayId> id =
        client_->session->Put({.element = late.array->shape().element,
                               .shard_dims = late.array->shape().dims,
                               .devices = placement->devices},
                              {{.data = late.bytes.get(), .byte_strides = {}}});
    error = id.status();
    if (id.ok()) late.array->Close(*id, placement);
  }
  if (!error.ok()) late.array->CloseFailed(std::move(error), placement);
  late.bytes.reset();
  late.array->Release();
}

absl::StatusOr<PJRT_Buffer*> PJRT_AsyncHostToDeviceTransferManager::Retrieve(int index) {
  if (absl::Status status = Check(index); !status.ok()) return status;
  MutexLock lock(mutex_);
  PJRT_Buffer* buffer = std::exchange(buffers_[index].buffer, nullptr);
  if (buffer != nullptr) return buffer;
  return absl::FailedPreconditionError(
      absl::StrCat("buffer ", index, " of a transfer manager was retrieved already"));
}

absl::StatusOr<size_t> PJRT_AsyncHostToDeviceTransferManager::Bytes(int index) const {
  if (absl::Status status = Check(index); !status.ok()) return status;
  return sizes_[index];
}

namespace shardway::pjrt_plugin {

PJRT_Error* ClientCreateBuffersForAsyncHostToDevice(
    PJRT_Client_CreateBuffersForAsyncHostToDevice_Args* args) {
  auto manager =
      std::make_unique<PJRT_AsyncHostToDeviceTransferManager>(args->client, args->memory);
  for (size_t i = 0; i < args->num_shape_specs; ++i) {
    const PJRT_ShapeSpec& spec = args->shape_specs[i];
    const absl::StatusOr<ElementType> element = FromPjrt(RawEnum(spec.element_type));
    if (!element.ok()) return ToError(element.status());
    auto shape = std::make_shared<const ShardShape>(spec.element_type, *element,
                                                    absl::MakeSpan(spec.dims, spec.num_dims));
    const bool has_layout = args->device_layouts != nullptr && i < args->num_device_layouts;
    if (has_layout && !IsRowMajorLayout(args->device_layouts[i], *shape)) {
      return ToError(
          absl::UnimplementedError("a device layout other than the default row-major one: arrays "
                                   "have no custom layouts here"));
    }
    manager->Add(std::move(shape));
  }
  args->transfer_manager = manager.release();
  return nullptr;
}

PJRT_Error* TransferManagerDestroy(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args* args) {
  delete args->transfer_manager;
  return nullptr;
}

PJRT_Error* TransferManagerTransferData(
    PJRT_AsyncHostToDeviceTransferManager_TransferData_Args* args) {
  SHARDWAY_PJRT_RETURN_IF_ERROR(args->transfer_manager->Transfer(
      args->buffer_index, args->data, args->offset, args->transfer_size, args->is_last_transfer));
  // The bytes have been copied.
  args->done_with_h2d_transfer = NewEvent(EventState::Completed(absl::OkStatus()));
  return nullptr;
}

PJRT_Error* TransferManagerRetrieveBuffer(
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args* args) {
  const auto buffer = args->transfer_manager->Retrieve(args->buffer_index);
  if (!buffer.ok()) return ToError(buffer.status());
  args->buffer_out = *buffer;
  return nullptr;
}

PJRT_Error* TransferManagerDevice(PJRT_AsyncHostToDeviceTransferManager_Device_Args* args) {
  args->device_out = args->transfer_manager->device();
  return nullptr;
}

PJRT_Error* TransferManagerBufferCount(
    PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args* args) {
  args->buffer_count = args->transfer_manager->size();
  return nullptr;
}

PJRT_Error* TransferManagerBufferSize(PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args* args) {
  const auto bytes = args->transfer_manager->Bytes(args->buffer_index);
  if (!bytes.ok()) return ToError(bytes.status());
  args->buffer_size = *bytes;
  return nullptr;
}

PJRT_Error* TransferManagerSetBufferError(
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args* args) {
  SHARDWAY_PJRT_RETURN_IF_ERROR(args->transfer_manager->Fail(
      args->buffer_index,
      absl::Status(static_cast<absl::StatusCode>(RawEnum(args->error_code)),
                   std::string(args->error_message, args->error_message_size))));
  return nullptr;
}

PJRT_Error* TransferManagerAddMetadata(PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args*) {
  return nullptr;
}

}  // namespace shardway::pjrt_plugin
