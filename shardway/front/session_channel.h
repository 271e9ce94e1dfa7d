// Turns what the controller tells a session into messages on its channel.
#pragma once

#include <memory>

#include "shardway/controller/session_events.h"
#include "shardway/wire/channel.h"

namespace shardway::front {

// Thread-safe. A channel that fails is closed: the session's reader then ends the session.
class SessionChannel : public controller::SessionSink {
 public:
  explicit SessionChannel(std::unique_ptr<wire::Channel> channel) : channel_(std::move(channel)) {}

  wire::Channel& channel() { return *channel_; }
  void Deliver(controller::SessionEvents events) override;

 private:
  void Send(const google::protobuf::MessageLite& message);

  const std::unique_ptr<wire::Channel> channel_;
};

}  // namespace shardway::front
