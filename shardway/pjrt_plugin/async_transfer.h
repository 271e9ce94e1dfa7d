// Asynchronous transfers from the host: buffers that exist before their bytes do. Bytes come in any
// order and from any thread, are gathered here, and go to the device with the last of them as one
// message. A buffer may be handed out, asked for its readiness and even used before: uses wait.
//
// Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pjrt_c_api.h"
#include "shardway/base/mutex.h"
#include "shardway/pjrt_plugin/array.h"
#include "shardway/pjrt_plugin/memory.h"

struct PJRT_AsyncHostToDeviceTransferManager {
 public:
  PJRT_AsyncHostToDeviceTransferManager(PJRT_Client* client, PJRT_Memory* memory)
      : client_(client), memory_(memory) {}
  // What has not been completed fails; what has not been retrieved goes.
  ~PJRT_AsyncHostToDeviceTransferManager();

  // Before anything else is called.
  void Add(shardway::pjrt_plugin::ShardShapeRef shape);

  absl::Status Transfer(int index, const void* data, int64_t offset, int64_t size, bool last);
  absl::Status Fail(int index, absl::Status error);
  absl::StatusOr<PJRT_Buffer*> Retrieve(int index);
  absl::StatusOr<size_t> Bytes(int index) const;
  size_t size() const { return buffers_.size(); }
  PJRT_Device* device() const { return memory_->device; }

 private:
  struct Late {
    shardway::pjrt_plugin::Array* array = nullptr;  // held until it is complete
    PJRT_Buffer* buffer = nullptr;                  // until it is retrieved
    std::unique_ptr<char[]> bytes;
    bool complete = false;
  };
  absl::Status Check(int index) const;
  // Sends it, or closes it with `error`.
  void Complete(Late& late, absl::Status error);

  PJRT_Client* const client_;
  PJRT_Memory* const memory_;
  mutable shardway::Mutex mutex_;
  std::vector<size_t> sizes_;  // of the buffers, in bytes; constant
  std::vector<Late> buffers_;  // their number is constant; the rest under mutex_
};

namespace shardway::pjrt_plugin {

PJRT_Error* ClientCreateBuffersForAsyncHostToDevice(
    PJRT_Client_CreateBuffersForAsyncHostToDevice_Args* args);
PJRT_Error* TransferManagerDestroy(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args* args);
PJRT_Error* TransferManagerTransferData(
    PJRT_AsyncHostToDeviceTransferManager_TransferData_Args* args);
PJRT_Error* TransferManagerRetrieveBuffer(
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args* args);
PJRT_Error* TransferManagerDevice(PJRT_AsyncHostToDeviceTransferManager_Device_Args* args);
PJRT_Error* TransferManagerBufferCount(
    PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args* args);
PJRT_Error* TransferManagerBufferSize(PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args* args);
PJRT_Error* TransferManagerSetBufferError(
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args* args);
// There is nothing here that metadata could tell: accepted and dropped.
PJRT_Error* TransferManagerAddMetadata(
    PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args* args);

}  // namespace shardway::pjrt_plugin
