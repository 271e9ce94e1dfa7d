#include "shardway/front/native_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/base/status_macros.h"
#include "shardway/front/session_channel.h"
#include "shardway/topology/topology.h"
#include "shardway/wire/channel.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/session.pb.h"
#include "shardway/wire/validate.h"

namespace shardway::front {
namespace {

constexpr Duration kHelloTimeout = std::chrono::seconds(30);
// Stays in the cores' caches; what doesn't fit waits in the session's outbox.
constexpr wire::ChannelOptions kChannelOptions = {.ring_bytes = size_t{256} << 10};
constexpr int kMaxBatch = 256;  // messages handled in one turn of the controller

absl::Status ReceiveHello(wire::Channel& channel, wire::Hello* hello) {
  wire::ClientMessage message;
  SHARDWAY_RETURN_IF_ERROR(channel.Receive(&message, kHelloTimeout));
  if (message.kind_case() != wire::ClientMessage::kHello) {
    return absl::InvalidArgumentError("the client did not begin with Hello");
  }
  if (message.hello().protocol() != wire::kSessionProtocol) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the client speaks session protocol ", message.hello().protocol(), ", this controller ",
        wire::kSessionProtocol, ": install the same version of shardway at both ends"));
  }
  hello->Swap(message.mutable_hello());
  return absl::OkStatus();
}

absl::Status SendWelcome(const controller::Controller& controller,
                         const controller::Controller::Opened& session, wire::Channel& channel) {
  wire::ServerMessage message;
  wire::Welcome& welcome = *message.mutable_welcome();
  welcome.set_protocol(wire::kSessionProtocol);
  welcome.set_session(session.id.value);
  welcome.set_platform(controller.platform());
  welcome.set_platform_version(controller.platform_version());
  welcome.set_link_prices(controller.link_prices().ToString());
  welcome.set_arena_bytes(session.arena_bytes);
  const topology::Topology& topology = controller.topology();
  for (int id = 0; id < topology.num_devices(); ++id) {
    const topology::Device device = topology.DeviceAt(id);
    wire::DeviceInfo& info = *welcome.add_devices();
    info.set_id(device.id);
    info.set_island(device.island);
    info.set_host(device.host);
    info.set_local(device.local);
    info.mutable_coords()->Assign(device.coords.begin(), device.coords.end());
  }
  return channel.Send(message, session.arena.get());
}

// Reads and handles messages until the channel ends (UNAVAILABLE) or the client errs.
absl::Status ServeMessages(controller::Controller& controller, SessionId session,
                           const wire::SessionLimits& limits, SessionChannel& sink) {
  wire::Channel& channel = sink.channel();
  std::vector<wire::ClientMessage> messages(kMaxBatch);
  for (;;) {
    int count = 0;
    absl::Status status;
    do {
      wire::ClientMessage& message = messages[count];
      status = channel.Receive(&message, std::chrono::seconds(10));
      if (!status.ok()) {
        break;
      }
      status = wire::Validate(message, limits);
      if (status.ok() && message.kind_case() == wire::ClientMessage::kPing) {
        wire::ServerMessage pong;
        pong.set_pong(message.ping());
        sink.Send(pong);
      } else if (status.ok()) {
        ++count;
      }
    } while (status.ok() && count < kMaxBatch && channel.HasMore());
    if (count > 0) {
      SHARDWAY_RETURN_IF_ERROR(controller.Handle(session, {messages.data(), size_t(count)}));
    }
    if (!status.ok() && !absl::IsDeadlineExceeded(status)) {
      return status;
    }
  }
}

void SayGoodbye(const absl::Status& status, SessionChannel& sink) {
  wire::ServerMessage message;
  wire::ToProto(status, message.mutable_goodbye());
  sink.Send(message);
}

}  // namespace

absl::Status ServeSession(controller::Controller& controller, wire::UniqueFd socket) {
  SHARDWAY_ASSIGN_OR_RETURN(std::unique_ptr<wire::Channel> made,
                            wire::MakeSharedMemoryChannel(std::move(socket), kChannelOptions));
  auto sink = std::make_shared<SessionChannel>(std::move(made));
  wire::Channel& channel = sink->channel();
  wire::Hello hello;
  if (absl::Status status = ReceiveHello(channel, &hello); !status.ok()) {
    SayGoodbye(status, *sink);
    return status;
  }
  SHARDWAY_ASSIGN_OR_RETURN(
      controller::Controller::Opened session,
      controller.OpenSession(hello.client_name(), sink,
                             static_cast<int64_t>(hello.memory_budget_bytes())));
  LOG_INFO("session {} of {} begins", session.id.value, hello.client_name());
  absl::Status status = SendWelcome(controller, session, channel);
  if (status.ok()) {
    const wire::SessionLimits limits = {.num_devices = controller.topology().num_devices(),
                                        .arena_bytes = session.arena_bytes};
    status = ServeMessages(controller, session.id, limits, *sink);
  }
  if (absl::IsUnavailable(status) || absl::IsCancelled(status)) {
    LOG_INFO("session {} of {} ends: {}", session.id.value, hello.client_name(),
             std::string(status.message()));
    status = absl::OkStatus();
  } else {
    LOG_WARN("session {} of {} is ended: {}", session.id.value, hello.client_name(),
             status.ToString());
    SayGoodbye(status, *sink);
  }
  controller.CloseSession(session.id);
  channel.Close();
  return status;
}

}  // namespace shardway::front
