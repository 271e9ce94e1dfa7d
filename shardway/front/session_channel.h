// Turns what the controller tells a session into messages on its channel.
#pragma once

#include <memory>

#include "shardway/controller/outbox.h"
#include "shardway/controller/session_events.h"
#include "shardway/wire/channel.h"

namespace shardway::front {

// Thread-safe. A channel that fails is closed: the session's reader then ends the session.
class SessionChannel : public controller::SessionSink {
 public:
  explicit SessionChannel(std::unique_ptr<wire::Channel> channel)
      : channel_(std::move(channel)), outbox_(channel_.get()) {}
  ~SessionChannel() override { channel_->Close(); }

  wire::Channel& channel() { return *channel_; }
  // Never waits for the client.
  void Send(const google::protobuf::MessageLite& message);
  void Deliver(controller::SessionEvents events) override;

 private:
  const std::unique_ptr<wire::Channel> channel_;
  controller::Outbox outbox_;
};

}  // namespace shardway::front
