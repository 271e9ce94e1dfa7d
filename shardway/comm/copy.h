// Copies between row-major arrays.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace shardway::comm {

// Copies part `source_part` along `split` of an array into part `target_part` along `concat` of
// another. `dims` is the shape of one part; the source is `dims` with dims[split] * split_parts,
// the target `dims` with dims[concat] * concat_parts. Elements are `element_bytes` wide.
struct PartCopy {
  absl::Span<const int64_t> dims;
  int64_t element_bytes = 1;
  int64_t split = 0;
  int64_t split_parts = 1;
  int64_t concat = 0;
  int64_t concat_parts = 1;
};
void CopyPart(const PartCopy& copy, const char* source, int64_t source_part, char* target,
              int64_t target_part);

}  // namespace shardway::comm
