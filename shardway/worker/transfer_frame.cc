#include "shardway/worker/transfer_frame.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace shardway::worker {

void WriteFrameHeader(const absl::Status& status, absl::Span<char> frame) {
  const int32_t code = static_cast<int32_t>(status.code());
  const int32_t length =
      static_cast<int32_t>(std::min(status.message().size(), kFrameHeader - 2 * sizeof(int32_t)));
  std::memset(frame.data(), 0, kFrameHeader);
  std::memcpy(frame.data(), &code, sizeof(code));
  std::memcpy(frame.data() + sizeof(code), &length, sizeof(length));
  std::copy_n(status.message().begin(), length, frame.begin() + 2 * sizeof(int32_t));
}

absl::Status ReadFrameHeader(absl::Span<const char> frame) {
  int32_t code = 0;
  int32_t length = 0;
  if (frame.size() >= kFrameHeader) {
    std::memcpy(&code, frame.data(), sizeof(code));
    std::memcpy(&length, frame.data() + sizeof(code), sizeof(length));
  }
  if (frame.size() < kFrameHeader || code < 0 ||
      code > static_cast<int32_t>(absl::StatusCode::kUnauthenticated) || length < 0 ||
      static_cast<size_t>(length) > kFrameHeader - 2 * sizeof(int32_t)) {
    return absl::DataLossError("an array's shard arrived damaged from another host");
  }
  return absl::Status(static_cast<absl::StatusCode>(code),
                      absl::string_view(frame.data() + 2 * sizeof(int32_t), length));
}

}  // namespace shardway::worker
