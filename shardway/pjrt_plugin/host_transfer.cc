#include "shardway/pjrt_plugin/host_transfer.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardway/base/raw_enum.h"
#include "shardway/base/status_macros.h"
#include "shardway/pjrt_plugin/buffer.h"
#include "shardway/pjrt_plugin/client.h"
#include "shardway/pjrt_plugin/element_types.h"
#include "shardway/pjrt_plugin/error.h"
#include "shardway/pjrt_plugin/host_layout.h"

namespace shardway::pjrt_plugin {
namespace {

// Byte strides that a host layout asks for.
absl::StatusOr<std::vector<int64_t>> HostStrides(const PJRT_Buffer_MemoryLayout& layout,
                                                 const ShardShape& shape) {
  if (RawEnum(layout.type) == PJRT_Buffer_MemoryLayout_Type_Strides) {
    if (layout.strides.num_byte_strides != shape.dims.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a host layout with ", layout.strides.num_byte_strides, " strides for ",
                       shape.dims.size(), " dimensions"));
    }
    return std::vector<int64_t>(layout.strides.byte_strides,
                                layout.strides.byte_strides + layout.strides.num_byte_strides);
  }
  if (layout.tiled.num_tiles != 0) {
    return absl::UnimplementedError("a tiled host layout: only plain ones can be read into");
  }
  const auto minor_to_major =
      absl::MakeSpan(layout.tiled.minor_to_major, layout.tiled.minor_to_major_size);
  std::vector<int64_t> sorted(minor_to_major.begin(), minor_to_major.end());
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted.size() != shape.dims.size() || sorted[i] != static_cast<int64_t>(i)) {
      return absl::InvalidArgumentError(absl::StrCat("a host layout {",
                                                     absl::StrJoin(minor_to_major, ","), "} for ",
                                                     shape.dims.size(), " dimensions"));
    }
  }
  return DenseStrides(shape.dims, ElementBytes(shape.element), minor_to_major);
}

}  // namespace

bool IsRowMajorLayout(const PJRT_Buffer_MemoryLayout* layout, const ShardShape& shape) {
  return layout == nullptr ||
         (RawEnum(layout->type) == PJRT_Buffer_MemoryLayout_Type_Tiled &&
          layout->tiled.num_tiles == 0 &&
          absl::MakeSpan(layout->tiled.minor_to_major, layout->tiled.minor_to_major_size) ==
              absl::MakeSpan(shape.minor_to_major));
}

PJRT_Error* ClientBufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args* args) {
  const absl::StatusOr<ElementType> element = FromPjrt(RawEnum(args->type));
  if (!element.ok()) return ToError(element.status());
  const auto dims = absl::MakeSpan(args->dims, args->num_dims);
  const auto strides = absl::MakeSpan(args->byte_strides, args->num_byte_strides);
  if (!strides.empty() && strides.size() != dims.size()) {
    return ToError(absl::InvalidArgumentError(absl::StrCat(
        "a host buffer with ", strides.size(), " strides for ", dims.size(), " dimensions")));
  }
  if (args->device_layout != nullptr &&
      !IsRowMajorLayout(args->device_layout, ShardShape(args->type, *element, dims))) {
    return ToError(
        absl::UnimplementedError("a device layout other than the default row-major one: arrays "
                                 "have no custom layouts here"));
  }
  PJRT_Memory* memory = args->memory != nullptr ? args->memory : args->device->memories.front();
  ShardGrouper::HostBytes bytes{
      .data = args->data,
      .only_during_call =
          args->host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableOnlyDuringCall};
  if (!strides.empty() && !IsRowMajor(dims, ElementBytes(*element), strides)) {
    bytes.byte_strides = strides;
  }
  ShardGrouper::PutShard put = args->client->grouper.Put(*element, args->type, dims, bytes, memory);
  args->buffer = put.buffer;
  args->done_with_host_buffer = NewEvent(std::move(put.done_with_host_bytes));
  return nullptr;
}

PJRT_Error* BufferToHostBuffer(PJRT_Buffer_ToHostBuffer_Args* args) {
  const PJRT_Buffer& buffer = *args->src;
  const ShardShape& shape = buffer.array->shape();
  if (args->dst == nullptr) {
    args->dst_size = shape.bytes;
    return nullptr;
  }
  if (args->dst_size < shape.bytes) {
    return ToError(absl::InvalidArgumentError(absl::StrCat(
        "a host buffer of ", args->dst_size, " bytes for an array of ", shape.bytes, " bytes")));
  }
  PJRT_Client& client = *buffer.array->client();
  client.grouper.Flush();
  SHARDWAY_PJRT_RETURN_IF_ERROR(CheckUsable(buffer));

  auto state = std::make_shared<EventState>();
  if (IsRowMajorLayout(args->host_layout, shape)) {
    client.session->Read(buffer.array->id(), buffer.shard, args->dst, shape.bytes,
                         [state](const absl::Status& status) { state->Complete(status); });
  } else {
    absl::StatusOr<std::vector<int64_t>> strides = HostStrides(*args->host_layout, shape);
    if (!strides.ok()) return ToError(std::move(strides).status());
    auto dense = std::make_unique_for_overwrite<char[]>(shape.bytes);
    void* bytes = dense.get();
    client.session->Read(
        buffer.array->id(), buffer.shard, bytes, shape.bytes,
        [state, dense = std::move(dense), strides = *std::move(strides), destination = args->dst,
         kept_shape = buffer.array->shape_ref()](const absl::Status& status) {
          if (status.ok()) {
            ScatterStrided(dense.get(), kept_shape->dims, ElementBytes(kept_shape->element),
                           strides, destination);
          }
          state->Complete(status);
        });
  }
  args->event = NewEvent(std::move(state));
  return nullptr;
}

}  // namespace shardway::pjrt_plugin
