// A channel between two threads of one test whose order ThreadSanitizer sees. The ring's two ends
// map one memory at two addresses, so what the ring orders looks like a race to it; here every
// message also passes a mutex that both ends share.
#pragma once

#include <memory>
#include <utility>

#include "shardway/base/mutex.h"
#include "shardway/wire/channel.h"

namespace shardway::worker {

class VisibleChannel : public wire::Channel {
 public:
  VisibleChannel(std::unique_ptr<wire::Channel> channel, std::shared_ptr<Mutex> order)
      : channel_(std::move(channel)), order_(std::move(order)) {}

  absl::Status Send(const google::protobuf::MessageLite& message, int fd) override {
    Pass();
    return channel_->Send(message, fd);
  }
  absl::Status SendBytes(std::string_view bytes, int fd) override {
    Pass();
    return channel_->SendBytes(bytes, fd);
  }
  absl::Status ReceiveBytes(std::string_view* bytes, Duration timeout,
                            wire::UniqueFd* fd) override {
    const absl::Status status = channel_->ReceiveBytes(bytes, timeout, fd);
    Pass();
    return status;
  }
  void Close() override {
    Pass();
    channel_->Close();
  }
  void Cork() override { channel_->Cork(); }
  void Uncork() override { channel_->Uncork(); }
  bool HasMore() override { return channel_->HasMore(); }
  int peer_pid() const override { return channel_->peer_pid(); }

 private:
  void Pass() { MutexLock lock(*order_); }

  const std::unique_ptr<wire::Channel> channel_;
  const std::shared_ptr<Mutex> order_;
};

}  // namespace shardway::worker
