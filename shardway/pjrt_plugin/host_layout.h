// How arrays lie in host memory, as PJRT describes it, beside the dense row-major form that moves.
// (The way in, from any strides, is the session's: client/strided_copy.h.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace shardway::pjrt_plugin {

// Bytes per step of each dimension in a dense array whose dimensions vary in the order
// `minor_to_major`, fastest first.
std::vector<int64_t> DenseStrides(absl::Span<const int64_t> dims, size_t element_bytes,
                                  absl::Span<const int64_t> minor_to_major);
// Whether `strides` are those of a dense row-major array (those of dimensions of size 1 don't
// matter).
bool IsRowMajor(absl::Span<const int64_t> dims, size_t element_bytes,
                absl::Span<const int64_t> strides);

// Dense row-major bytes into a strided array. Strides may be negative; `destination` is where
// element (0, …, 0) goes.
void ScatterStrided(const void* dense, absl::Span<const int64_t> dims, size_t element_bytes,
                    absl::Span<const int64_t> strides, void* destination);

}  // namespace shardway::pjrt_plugin
