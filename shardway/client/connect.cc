// How a session comes about: the two factory functions of Session.
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/client/session_impl.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/socket.h"

namespace shardway::client {
namespace {

absl::StatusOr<std::unique_ptr<wire::Channel>> OpenChannel(wire::UniqueFd socket,
                                                           const Session::Options& options) {
  wire::ChannelOptions channel_options;
  channel_options.handshake_timeout = options.connect_timeout;
  channel_options.send_timeout = options.liveness;
  return wire::MakeSharedMemoryChannel(std::move(socket), channel_options);
}

// What the child's end explains is worth more than that the socket closed.
absl::Status ExplainStart(ControllerProcess& process, const std::string& binary,
                          const absl::Status& status) {
  if (status.ok()) return status;
  const std::string how = process.AwaitEnd(std::chrono::milliseconds(200));
  if (how.empty()) process.Kill();
  return absl::UnavailableError(absl::StrCat("the private cluster did not start: '", binary,
                                             " controller' ",
                                             how.empty() ? std::string(status.message()) : how,
                                             "; SHARDWAY_LOG=info shows what its processes say"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> SessionImpl::Start(
    std::unique_ptr<wire::Channel> channel, std::unique_ptr<ControllerProcess>* process,
    const Options& options) {
  wire::ClientMessage message;
  wire::Hello* hello = message.mutable_hello();
  hello->set_protocol(wire::kSessionProtocol);
  hello->set_client_name(options.client_name);
  hello->set_memory_budget_bytes(options.memory_budget_bytes);
  SHARDWAY_RETURN_IF_ERROR(channel->Send(message));

  wire::ServerMessage answer;
  wire::UniqueFd arena_fd;
  SHARDWAY_RETURN_IF_ERROR(channel->Receive(&answer, options.connect_timeout, &arena_fd));
  SHARDWAY_RETURN_IF_ERROR(wire::Validate(answer, {}));
  if (answer.kind_case() == wire::ServerMessage::kGoodbye) {
    const absl::Status reason = wire::FromProto(answer.goodbye());
    return absl::Status(
        reason.ok() ? absl::StatusCode::kUnavailable : reason.code(),
        absl::StrCat("the controller refused the session: ", std::string(reason.message())));
  }
  if (answer.kind_case() != wire::ServerMessage::kWelcome) {
    return absl::UnavailableError("the controller did not begin with a welcome");
  }
  const wire::Welcome& welcome = answer.welcome();
  if (welcome.protocol() != wire::kSessionProtocol) {
    return absl::FailedPreconditionError(
        absl::StrCat("the controller speaks version ", welcome.protocol(),
                     " of the session protocol, this client ", wire::kSessionProtocol,
                     ": install the same release on both sides"));
  }
  SHARDWAY_ASSIGN_OR_RETURN(auto view,
                            wire::ArenaView::Map(std::move(arena_fd), welcome.arena_bytes()));
  return std::unique_ptr<Session>(
      new SessionImpl(std::move(channel), std::move(*process), options,
                      std::make_unique<wire::ArenaAllocator>(std::move(view)), welcome));
}

absl::StatusOr<std::unique_ptr<Session>> Session::Connect(std::string_view address,
                                                          Options options) {
  SHARDWAY_ASSIGN_OR_RETURN(wire::UniqueFd socket, wire::Connect(address, options.connect_timeout));
  SHARDWAY_ASSIGN_OR_RETURN(auto channel, OpenChannel(std::move(socket), options));
  std::unique_ptr<ControllerProcess> none;
  return SessionImpl::Start(std::move(channel), &none, options);
}

absl::StatusOr<std::unique_ptr<Session>> Session::StartPrivate(const std::string& binary,
                                                               const ClusterShape& shape,
                                                               Options options) {
  SHARDWAY_ASSIGN_OR_RETURN(auto sockets, wire::SocketPair());
  std::vector<std::string> arguments = {"controller", absl::StrCat("--islands=", shape.islands),
                                        absl::StrCat("--hosts=", shape.hosts),
                                        absl::StrCat("--devices=", shape.devices),
                                        absl::StrCat("--fd=", sockets.second.get())};
  if (!shape.plugin_path.empty()) arguments.push_back("--plugin=" + shape.plugin_path);
  SHARDWAY_ASSIGN_OR_RETURN(auto process, ControllerProcess::Start(binary, std::move(arguments),
                                                                   std::move(sockets.second)));
  auto channel = OpenChannel(std::move(sockets.first), options);
  if (!channel.ok()) return ExplainStart(*process, binary, channel.status());
  auto session = SessionImpl::Start(*std::move(channel), &process, options);
  if (!session.ok()) return ExplainStart(*process, binary, session.status());
  return session;
}

}  // namespace shardway::client
