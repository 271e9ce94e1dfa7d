// How a device that must wait is suspended and continued: by XLA's futures in production
// (ffi_handler.cc), by a plain latch in tests. Communication itself knows no XLA.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardway::comm {

class Runtime {
 public:
  virtual ~Runtime() = default;

  // Makes a token that stands for the suspended device of the call in progress. Tokens are
  // pointers: not null, bit 0 clear. `context` is the call's own (Call::context).
  virtual absl::StatusOr<uintptr_t> Suspend(void* context) = 0;

  // Continues the device, on this thread, or fails its program. Once per token; the thread has
  // XLA's float mode.
  virtual void Resume(uintptr_t token, const absl::Status& status) = 0;

  // Runs `task(data)` soon on one of the device runtime's own threads. Only while the call that
  // `context` belongs to is in progress. False: there is no such thread.
  virtual bool Schedule(void* context, void (*task)(void*), void* data) = 0;
};

}  // namespace shardway::comm
