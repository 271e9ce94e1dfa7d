// Element type and dimensions of one shard, shared by all buffers that have it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "pjrt_c_api.h"
#include "shardway/base/element_type.h"

namespace shardway::pjrt_plugin {

struct ShardShape {
  PJRT_Buffer_Type type;
  ElementType element;
  std::vector<int64_t> dims;
  std::vector<int64_t> minor_to_major;  // dense row-major: {n-1, …, 0}
  size_t bytes;                         // of the dense row-major form

  ShardShape(PJRT_Buffer_Type type, ElementType element, absl::Span<const int64_t> dims);

  bool Is(ElementType other, absl::Span<const int64_t> other_dims) const {
    return element == other && absl::MakeSpan(dims) == other_dims;
  }
};

using ShardShapeRef = std::shared_ptr<const ShardShape>;

}  // namespace shardway::pjrt_plugin
