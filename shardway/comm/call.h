// One device's arrival at a collective call.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "shardway/comm/runtime.h"

namespace shardway::comm {

struct Call {
  int32_t launch = 0;
  int ordinal = 0;  // of the device, on this host
  int32_t site = 0;
  // Dense row-major buffers, shaped as the specification says; they stay until the device is
  // released.
  absl::Span<void* const> operands;
  absl::Span<void* const> results;
  Runtime* runtime = nullptr;
  void* context = nullptr;  // of this call, for `runtime`
};

// The call in progress on this thread, if any: where a thread of XLA's pool can be had.
struct Scheduler {
  Runtime* runtime = nullptr;
  void* context = nullptr;
};

enum class Outcome : uint8_t {
  kDone,     // results are written, operands no longer read
  kPending,  // the device was suspended; Runtime::Resume will continue it
};

}  // namespace shardway::comm
