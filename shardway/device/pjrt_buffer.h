// device::Buffer over a PJRT_Buffer.
#pragma once

#include <memory>
#include <vector>

#include "shardway/device/device.h"
#include "shardway/device/pjrt_api.h"

namespace shardway::device {

// What a buffer holds; shared by all buffers that one executable makes for one result.
struct BufferShape {
  ElementType element = ElementType::kInvalid;
  std::vector<int64_t> dims;
  size_t num_bytes = 0;

  static std::shared_ptr<const BufferShape> Make(ElementType element, std::vector<int64_t> dims);
};

class PjrtBuffer : public Buffer {
 public:
  // Owns `buffer`.
  PjrtBuffer(const PjrtApi* api, PJRT_Buffer* buffer, std::shared_ptr<const BufferShape> shape)
      : api_(api), buffer_(buffer), shape_(std::move(shape)) {}
  ~PjrtBuffer() override;
  PjrtBuffer(const PjrtBuffer&) = delete;
  PjrtBuffer& operator=(const PjrtBuffer&) = delete;

  ElementType element() const override { return shape_->element; }
  absl::Span<const int64_t> dims() const override { return shape_->dims; }
  size_t num_bytes() const override { return shape_->num_bytes; }
  absl::Status Await() override;
  absl::Status ToHost(void* destination, size_t size) override;

  PJRT_Buffer* get() const { return buffer_; }
  const std::shared_ptr<const BufferShape>& shape() const { return shape_; }
  bool IsDeleted() const;

 private:
  const PjrtApi* api_;
  PJRT_Buffer* buffer_;
  std::shared_ptr<const BufferShape> shape_;
};

}  // namespace shardway::device
