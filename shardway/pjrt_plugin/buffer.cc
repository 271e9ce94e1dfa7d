#include "shardway/pjrt_plugin/buffer.h"

#include "absl/strings/str_cat.h"
#include "shardway/pjrt_plugin/client.h"
#include "shardway/pjrt_plugin/error.h"

namespace shardway::pjrt_plugin {

absl::Status CheckUsable(const PJRT_Buffer& buffer) {
  if (buffer.array->IsDeleted(buffer)) {
    return absl::InvalidArgumentError(absl::StrCat("the array has been deleted or donated (shard ",
                                                   buffer.shard, " on device ",
                                                   buffer.memory->device->description.id, ")"));
  }
  if (absl::Status status = buffer.array->AwaitMade(); !status.ok()) return status;
  return buffer.array->error();
}

PJRT_Error* BufferDestroy(PJRT_Buffer_Destroy_Args* args) {
  if (args->buffer != nullptr) {
    args->buffer->array->client()->external_references.Forget(*args->buffer);
    args->buffer->array->Destroy(args->buffer);
  }
  return nullptr;
}

PJRT_Error* BufferElementType(PJRT_Buffer_ElementType_Args* args) {
  args->type = args->buffer->array->shape().type;
  return nullptr;
}

PJRT_Error* BufferDimensions(PJRT_Buffer_Dimensions_Args* args) {
  const ShardShape& shape = args->buffer->array->shape();
  args->dims = shape.dims.data();
  args->num_dims = shape.dims.size();
  return nullptr;
}

PJRT_Error* BufferUnpaddedDimensions(PJRT_Buffer_UnpaddedDimensions_Args* args) {
  const ShardShape& shape = args->buffer->array->shape();
  args->unpadded_dims = shape.dims.data();
  args->num_dims = shape.dims.size();
  return nullptr;
}

PJRT_Error* BufferDynamicDimensionIndices(PJRT_Buffer_DynamicDimensionIndices_Args* args) {
  args->dynamic_dim_indices = nullptr;
  args->num_dynamic_dims = 0;
  return nullptr;
}

PJRT_Error* BufferGetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args* args) {
  const ShardShape& shape = args->buffer->array->shape();
  args->layout = {};
  args->layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  args->layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  args->layout.tiled = {};
  args->layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  args->layout.tiled.minor_to_major = shape.minor_to_major.data();
  args->layout.tiled.minor_to_major_size = shape.minor_to_major.size();
  return nullptr;
}

PJRT_Error* BufferOnDeviceSizeInBytes(PJRT_Buffer_OnDeviceSizeInBytes_Args* args) {
  args->on_device_size_in_bytes = args->buffer->array->shape().bytes;
  return nullptr;
}

PJRT_Error* BufferDevice(PJRT_Buffer_Device_Args* args) {
  args->device = args->buffer->memory->device;
  return nullptr;
}

PJRT_Error* BufferMemory(PJRT_Buffer_Memory_Args* args) {
  args->memory = args->buffer->memory;
  return nullptr;
}

PJRT_Error* BufferDelete(PJRT_Buffer_Delete_Args* args) {
  args->buffer->array->Delete(args->buffer);
  return nullptr;
}

PJRT_Error* BufferIsDeleted(PJRT_Buffer_IsDeleted_Args* args) {
  args->is_deleted = args->buffer->array->IsDeleted(*args->buffer);
  return nullptr;
}

PJRT_Error* BufferIsOnCpu(PJRT_Buffer_IsOnCpu_Args* args) {
  // Not in this process's memory: JAX then reads with ToHostBuffer.
  args->is_on_cpu = false;
  return nullptr;
}

PJRT_Error* BufferReadyEvent(PJRT_Buffer_ReadyEvent_Args* args) {
  Array* array = args->buffer->array;
  array->client()->grouper.Flush();
  if (array->IsDeleted(*args->buffer)) {
    args->event = NewEvent(EventState::Completed(CheckUsable(*args->buffer)));
  } else {
    args->event = NewEvent(array->Ready());
  }
  return nullptr;
}

namespace {

PJRT_Error* Copy(PJRT_Buffer* buffer, PJRT_Memory* memory, PJRT_Buffer** copy) {
  if (buffer->array->IsDeleted(*buffer)) {
    return ToError(CheckUsable(*buffer));
  }
  if (absl::Status status = buffer->array->AwaitMade(); !status.ok()) return ToError(status);
  *copy = buffer->array->client()->grouper.Copy(buffer, memory);
  return nullptr;
}

}  // namespace

PJRT_Error* BufferCopyToDevice(PJRT_Buffer_CopyToDevice_Args* args) {
  return Copy(args->buffer, args->dst_device->memories.front(), &args->dst_buffer);
}

PJRT_Error* BufferCopyToMemory(PJRT_Buffer_CopyToMemory_Args* args) {
  return Copy(args->buffer, args->dst_memory, &args->dst_buffer);
}

}  // namespace shardway::pjrt_plugin
