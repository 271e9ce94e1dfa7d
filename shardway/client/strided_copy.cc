#include "shardway/client/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace shardway::client {
namespace {

struct Dimension {
  int64_t size;
  int64_t stride;  // bytes in the source
};
// Outermost first, neighbours that are contiguous with each other merged, no dimensions of size 1.
using Loops = std::vector<Dimension>;

Loops Normalize(absl::Span<const int64_t> dims, absl::Span<const int64_t> byte_strides) {
  Loops loops;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    if (!loops.empty() && loops.back().stride == byte_strides[i] * dims[i]) {
      loops.back() = {loops.back().size * dims[i], byte_strides[i]};
    } else {
      loops.push_back({dims[i], byte_strides[i]});
    }
  }
  return loops;
}

template <size_t kBytes>
char* CopyRow(char* to, const char* from, Dimension row) {
  for (int64_t i = 0; i < row.size; ++i, to += kBytes, from += row.stride) {
    std::memcpy(to, from, kBytes);
  }
  return to;
}

char* CopyRow(char* to, const char* from, Dimension row, int element_bytes) {
  if (row.stride == element_bytes) {
    std::memcpy(to, from, row.size * element_bytes);
    return to + row.size * element_bytes;
  }
  switch (element_bytes) {
    case 1:
      return CopyRow<1>(to, from, row);
    case 2:
      return CopyRow<2>(to, from, row);
    case 4:
      return CopyRow<4>(to, from, row);
    case 8:
      return CopyRow<8>(to, from, row);
    default:
      return CopyRow<16>(to, from, row);
  }
}

char* CopyLoops(char* to, const char* from, absl::Span<const Dimension> loops, int element_bytes) {
  if (loops.size() == 1) return CopyRow(to, from, loops[0], element_bytes);
  for (int64_t i = 0; i < loops[0].size; ++i, from += loops[0].stride) {
    to = CopyLoops(to, from, loops.subspan(1), element_bytes);
  }
  return to;
}

}  // namespace

void CopyStrided(char* destination, const char* source, absl::Span<const int64_t> dims,
                 absl::Span<const int64_t> byte_strides, int element_bytes) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  if (count == 0) return;
  if (byte_strides.empty()) {
    std::memcpy(destination, source, count * element_bytes);
    return;
  }
  Loops loops = Normalize(dims, byte_strides);
  if (loops.empty()) loops.push_back({1, element_bytes});
  CopyLoops(destination, source, loops, element_bytes);
}

}  // namespace shardway::client
