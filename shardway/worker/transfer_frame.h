// The frame in which a shard travels between hosts: kFrameHeader bytes that hold the source's
// status, then the shard's dense bytes (undefined when the status is an error).
//
//   int32 code, int32 message length, message (cut to what fits)
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace shardway::worker {

inline constexpr size_t kFrameHeader = 1024;

void WriteFrameHeader(const absl::Status& status, absl::Span<char> frame);
// What the header says; DATA_LOSS when it makes no sense.
absl::Status ReadFrameHeader(absl::Span<const char> frame);

}  // namespace shardway::worker
