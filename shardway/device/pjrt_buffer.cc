#include "shardway/device/pjrt_buffer.h"

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"

namespace shardway::device {

std::shared_ptr<const BufferShape> BufferShape::Make(ElementType element,
                                                     std::vector<int64_t> dims) {
  auto shape = std::make_shared<BufferShape>();
  shape->element = element;
  shape->num_bytes = ElementBytes(element);
  for (int64_t dim : dims) shape->num_bytes *= dim;
  shape->dims = std::move(dims);
  return shape;
}

PjrtBuffer::~PjrtBuffer() {
  SHARDWAY_PJRT_ARGS(args, PJRT_Buffer_Destroy_Args);
  args.buffer = buffer_;
  const absl::Status status =
      api_->ToStatus((*api_)->PJRT_Buffer_Destroy(&args), "freeing a buffer");
  if (!status.ok()) LOG_ERROR("{}", status.ToString());
}

bool PjrtBuffer::IsDeleted() const {
  SHARDWAY_PJRT_ARGS(args, PJRT_Buffer_IsDeleted_Args);
  args.buffer = buffer_;
  return api_->ToStatus((*api_)->PJRT_Buffer_IsDeleted(&args), "asking about a buffer").ok() &&
         args.is_deleted;
}

absl::Status PjrtBuffer::Await() {
  SHARDWAY_PJRT_ARGS(args, PJRT_Buffer_ReadyEvent_Args);
  args.buffer = buffer_;
  absl::Status status =
      api_->ToStatus((*api_)->PJRT_Buffer_ReadyEvent(&args), "waiting for a buffer");
  return status.ok() ? api_->Await(args.event, "waiting for a buffer") : status;
}

absl::Status PjrtBuffer::ToHost(void* destination, size_t size) {
  if (size != shape_->num_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("a buffer of ", shape_->num_bytes,
                                                   " bytes can't be read into a place of ", size));
  }
  if (size == 0) return Await();
  // A program may give its result another layout than the dense row-major one that is promised.
  absl::InlinedVector<int64_t, 8> minor_to_major(shape_->dims.size());
  for (size_t i = 0; i < minor_to_major.size(); ++i)
    minor_to_major[i] = minor_to_major.size() - 1 - i;
  SHARDWAY_PJRT_ARGS(layout, PJRT_Buffer_MemoryLayout);
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();

  SHARDWAY_PJRT_ARGS(args, PJRT_Buffer_ToHostBuffer_Args);
  args.src = buffer_;
  args.host_layout = minor_to_major.size() > 1 ? &layout : nullptr;
  args.dst = destination;
  args.dst_size = size;
  absl::Status status =
      api_->ToStatus((*api_)->PJRT_Buffer_ToHostBuffer(&args), "reading a buffer");
  return status.ok() ? api_->Await(args.event, "reading a buffer") : status;
}

}  // namespace shardway::device
