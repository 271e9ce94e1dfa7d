// Checks of messages from outside. A message that passes is internally consistent: required fields
// are there, ids are not 0 and fit their range, counts agree, element types are known, sizes don't
// overflow, devices exist, blocks lie inside the arena. What only the receiver knows (whether an id
// is in use, whether shapes fit a program) is the receiver's to check.
//
// Each returns INVALID_ARGUMENT naming the message, the field and the bad value. Pure; thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardway/wire/session.pb.h"
#include "shardway/wire/worker.pb.h"

namespace shardway::wire {

struct SessionLimits {
  int num_devices = 0;
  uint64_t arena_bytes = 0;
};

absl::Status Validate(const ClientMessage& message, const SessionLimits& limits);
absl::Status Validate(const ServerMessage& message, const SessionLimits& limits);

// Arena blocks in worker messages are checked by ArenaView::Block.
absl::Status Validate(const ToWorker& message, int num_devices);
absl::Status Validate(const FromWorker& message, int num_devices);

// Bytes of one shard; INVALID_ARGUMENT for an unknown element type, a negative dimension, a rank
// above kMaxRank, or a product above 2^48.
absl::StatusOr<uint64_t> ShardBytes(uint32_t element, absl::Span<const int64_t> dims);

// Status ↔ StatusProto. Codes that absl does not know become UNKNOWN; an absent proto is OK.
void ToProto(const absl::Status& status, StatusProto* proto);
absl::Status FromProto(const StatusProto& proto);

}  // namespace shardway::wire
