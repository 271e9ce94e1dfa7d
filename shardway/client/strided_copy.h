// Host arrays as a front end has them (any byte strides) into dense row-major memory.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace shardway::client {

// Copies an array of shape `dims` with elements of `element_bytes` (1, 2, 4, 8 or 16) to
// `destination`, dense row-major. Element (i, j, …) is at source + i * byte_strides[0] + j *
// byte_strides[1] + …; strides may be 0 or negative; empty means dense row-major.
void CopyStrided(char* destination, const char* source, absl::Span<const int64_t> dims,
                 absl::Span<const int64_t> byte_strides, int element_bytes);

}  // namespace shardway::client
