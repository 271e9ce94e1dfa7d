#include "shardway/pjrt_plugin/host_layout.h"

#include <cstring>

namespace shardway::pjrt_plugin {

std::vector<int64_t> DenseStrides(absl::Span<const int64_t> dims, size_t element_bytes,
                                  absl::Span<const int64_t> minor_to_major) {
  std::vector<int64_t> strides(dims.size());
  auto stride = static_cast<int64_t>(element_bytes);
  for (const int64_t d : minor_to_major) {
    strides[d] = stride;
    stride *= dims[d];
  }
  return strides;
}

bool IsRowMajor(absl::Span<const int64_t> dims, size_t element_bytes,
                absl::Span<const int64_t> strides) {
  auto stride = static_cast<int64_t>(element_bytes);
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d] != 1 && strides[d] != stride) return false;
    stride *= dims[d];
  }
  return true;
}

void ScatterStrided(const void* dense, absl::Span<const int64_t> dims, size_t element_bytes,
                    absl::Span<const int64_t> strides, void* destination) {
  // The trailing dimensions that are dense on both sides are copied in one piece.
  size_t rank = dims.size();
  size_t piece = element_bytes;
  while (rank > 0 && (dims[rank - 1] == 1 || strides[rank - 1] == static_cast<int64_t>(piece))) {
    piece *= static_cast<size_t>(dims[--rank]);
  }
  size_t pieces = piece == 0 ? 0 : 1;
  for (size_t d = 0; d < rank; ++d) {
    pieces *= static_cast<size_t>(dims[d]);
  }
  std::vector<int64_t> index(rank, 0);
  int64_t offset = 0;
  for (size_t i = 0; i < pieces; ++i) {
    std::memcpy(static_cast<char*>(destination) + offset,
                static_cast<const char*>(dense) + i * piece, piece);
    for (size_t d = rank; d-- > 0;) {
      offset += strides[d];
      if (++index[d] < dims[d]) break;
      offset -= strides[d] * dims[d];
      index[d] = 0;
    }
  }
}

}  // namespace shardway::pjrt_plugin
