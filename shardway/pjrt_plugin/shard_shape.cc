#include "shardway/pjrt_plugin/shard_shape.h"

namespace shardway::pjrt_plugin {

ShardShape::ShardShape(PJRT_Buffer_Type type, ElementType element, absl::Span<const int64_t> dims)
    : type(type), element(element), dims(dims.begin(), dims.end()) {
  bytes = static_cast<size_t>(ElementBytes(element));
  for (size_t i = 0; i < dims.size(); ++i) {
    bytes *= static_cast<size_t>(dims[i]);
    minor_to_major.push_back(static_cast<int64_t>(dims.size() - 1 - i));
  }
}

}  // namespace shardway::pjrt_plugin
