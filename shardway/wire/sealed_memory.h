// Shared memory that can't change its size under a reader: sealed memfds.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardway/wire/unique_fd.h"

namespace shardway::wire {

// A zeroed memfd of `bytes`, sealed against shrinking, growing and further seals. `name` shows in
// /proc/<pid>/maps.
absl::StatusOr<UniqueFd> CreateSealedMemory(const char* name, uint64_t bytes);

// INVALID_ARGUMENT unless `fd`, which came from outside, is such a memfd of at least `bytes`.
absl::Status CheckSealedMemory(int fd, uint64_t bytes);

// errno as a status: "<what>: <strerror>".
absl::Status ErrnoStatus(int error, const char* what);

}  // namespace shardway::wire
