#include "shardway/wire/channel.h"

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"

namespace shardway::wire {

absl::Status Channel::Receive(google::protobuf::MessageLite* message, Duration timeout,
                              UniqueFd* fd) {
  std::string_view bytes;
  SHARDWAY_RETURN_IF_ERROR(ReceiveBytes(&bytes, timeout, fd));
  if (!message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message of ", bytes.size(), " bytes is no ", message->GetTypeName()));
  }
  return absl::OkStatus();
}

}  // namespace shardway::wire
