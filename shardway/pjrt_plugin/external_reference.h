// Buffers whose bytes other libraries look at (DLPack: np.from_dlpack, torch.from_dlpack; and
// unsafe_buffer_pointer).
//
// A device's memory is in a worker's process: what others see is a copy in this one, made when the
// first asks and freed when the last has let go. Arrays never change, so a copy is as good to read;
// what is written to it nobody sees.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pjrt_c_api.h"
#include "shardway/base/mutex.h"

namespace shardway::pjrt_plugin {

class ExternalReferences {
 public:
  // Waits for the array when it is the buffer's first reference. The error is the array's own.
  absl::Status Add(PJRT_Buffer& buffer);
  // FAILED_PRECONDITION when there is none.
  absl::Status Drop(const PJRT_Buffer& buffer);
  // The bytes, row-major; valid as long as a reference is there. FAILED_PRECONDITION when there is
  // none.
  absl::StatusOr<void*> Data(const PJRT_Buffer& buffer);
  // The same bytes for as long as the buffer is there (an address has nobody who lets go of it).
  absl::StatusOr<void*> Pin(PJRT_Buffer& buffer);
  // To be called before a buffer is destroyed.
  void Forget(const PJRT_Buffer& buffer);

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Copy {
    std::unique_ptr<void, Free> bytes;
    int references = 0;
    bool pinned = false;  // one of the references
  };

  std::atomic<int> num_pinned_{0};  // so that destroying a buffer takes no lock
  Mutex mutex_;
  absl::flat_hash_map<const PJRT_Buffer*, Copy> copies_ SHARDWAY_GUARDED_BY(mutex_);
};

// The API's functions about them.
PJRT_Error* BufferIncreaseExternalReferenceCount(
    PJRT_Buffer_IncreaseExternalReferenceCount_Args* args);
PJRT_Error* BufferDecreaseExternalReferenceCount(
    PJRT_Buffer_DecreaseExternalReferenceCount_Args* args);
PJRT_Error* BufferOpaqueDeviceMemoryDataPointer(
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args* args);
PJRT_Error* BufferUnsafePointer(PJRT_Buffer_UnsafePointer_Args* args);

}  // namespace shardway::pjrt_plugin
