#include <google/protobuf/arena.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/base/status_macros.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/validate.h"
#include "shardway/worker/daemon.h"

namespace shardway::worker {
namespace {

constexpr Duration kConfigureTimeout = std::chrono::seconds(60);
// The reader looks this often whether the channel still lives; an idle worker costs nothing more.
constexpr Duration kReceiveTimeout = std::chrono::seconds(5);
constexpr size_t kArenaBlock = 64 << 10;

// Messages without payload are parsed into memory that is reused.
class MessageArena {
 public:
  MessageArena() : block_(std::make_unique<char[]>(kArenaBlock)), arena_(Options()) {}
  wire::ToWorker* Next() {
    arena_.Reset();
    return google::protobuf::Arena::CreateMessage<wire::ToWorker>(&arena_);
  }

 private:
  google::protobuf::ArenaOptions Options() {
    google::protobuf::ArenaOptions options;
    options.initial_block = block_.get();
    options.initial_block_size = kArenaBlock;
    return options;
  }
  std::unique_ptr<char[]> block_;
  google::protobuf::Arena arena_;
};

absl::StatusOr<Worker::Parts> Configure(wire::Channel& channel, const PartsFactory& make_parts) {
  wire::ToWorker message;
  wire::UniqueFd fd;
  SHARDWAY_RETURN_IF_ERROR(channel.Receive(&message, kConfigureTimeout, &fd));
  if (!message.has_configure()) {
    return absl::InvalidArgumentError("the controller's first message is not Configure");
  }
  SHARDWAY_RETURN_IF_ERROR(wire::Validate(message, 0));
  if (message.configure().protocol() != wire::kWorkerProtocol) {
    return absl::FailedPreconditionError(
        absl::StrCat("the controller speaks worker protocol ", message.configure().protocol(),
                     ", this worker ", wire::kWorkerProtocol, ": use one build of shardway"));
  }
  return make_parts(message.configure(), std::move(fd));
}

}  // namespace

absl::Status Serve(wire::Channel& channel, const PartsFactory& make_parts) {
  absl::StatusOr<Worker::Parts> parts = Configure(channel, make_parts);
  wire::FromWorker ready;
  wire::ToProto(parts.status(), ready.mutable_ready()->mutable_status());
  if (parts.ok()) {
    ready.mutable_ready()->set_platform(parts->devices->platform_name());
    ready.mutable_ready()->set_platform_version(parts->devices->platform_version());
  }
  SHARDWAY_RETURN_IF_ERROR(channel.Send(ready));
  if (!parts.ok()) return parts.status();

  const int num_devices = static_cast<int>(parts->topology.host_of_device.size());
  Outbox outbox(&channel);
  Worker worker(*std::move(parts), &outbox);
  MessageArena messages;
  while (true) {
    wire::ToWorker* message = messages.Next();
    wire::UniqueFd fd;
    absl::Status status = channel.Receive(message, kReceiveTimeout, &fd);
    if (absl::IsDeadlineExceeded(status)) continue;
    if (absl::IsUnavailable(status) || absl::IsCancelled(status)) {
      LOG_INFO("the controller is gone: {}", status.ToString());
      return absl::OkStatus();
    }
    if (absl::IsInvalidArgument(status)) {  // this message alone
      LOG_ERROR("a message of the controller is dropped: {}", status.ToString());
      continue;
    }
    SHARDWAY_RETURN_IF_ERROR(status);
    if (message->has_shutdown()) return absl::OkStatus();
    if (status = wire::Validate(*message, num_devices); !status.ok()) {
      LOG_ERROR("a message of the controller is dropped: {}", status.ToString());
      continue;
    }
    worker.Handle(message, std::move(fd));
  }
}

}  // namespace shardway::worker
