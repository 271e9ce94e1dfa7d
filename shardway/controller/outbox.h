// Sends on a channel without ever waiting for its reader: what has no room in the channel is kept,
// and sent in order by a thread of its own (started when first needed). So a process that is
// stopped or slow delays nobody but itself; when it reads nothing for the channel's send_timeout it
// is lost.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "shardway/base/mutex.h"
#include "shardway/wire/channel.h"
#include "shardway/wire/unique_fd.h"

namespace shardway::controller {

// Thread-safe.
class Outbox {
 public:
  // `channel` outlives the outbox. Beyond `max_backlog_bytes` of kept messages the peer is lost.
  explicit Outbox(wire::Channel* channel, size_t max_backlog_bytes = size_t{4} << 30)
      : channel_(channel), max_backlog_bytes_(max_backlog_bytes) {}
  // Drops what is kept; the channel must be closed or its reader alive, lest this wait for a send.
  ~Outbox();

  // An error: the peer is lost; nothing later is sent.
  absl::Status Send(std::string_view message, int fd = -1);

 private:
  struct Kept {
    std::string message;
    wire::UniqueFd fd;
  };
  void SendKept();

  wire::Channel* const channel_;
  const size_t max_backlog_bytes_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ SHARDWAY_GUARDED_BY(mutex_) = false;
  absl::Status status_ SHARDWAY_GUARDED_BY(mutex_);
  std::deque<Kept> kept_ SHARDWAY_GUARDED_BY(mutex_);  // the first one is being sent
  size_t kept_bytes_ SHARDWAY_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace shardway::controller
