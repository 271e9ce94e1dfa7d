// Threads that run the user's callbacks for programs on devices. A callback may take long and may
// itself run programs that call back, so a call that finds all threads busy gets a new one, up to a
// limit; beyond it calls wait.
//
// The threads are detached: a callback may need a lock (Python's) that whoever ends the session
// holds. They own what they use.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shardway/base/mutex.h"
#include "shardway/client/session.h"
#include "shardway/wire/channel.h"
#include "shardway/wire/session.pb.h"

namespace shardway::client {

// Thread-safe.
class CallbackThreads : public std::enable_shared_from_this<CallbackThreads> {
 public:
  static constexpr int kMaxThreads = 16;

  // `reply` sends a CallbackReturn; it is called on the callback threads, also after Stop.
  using Reply = std::function<void(const wire::ClientMessage&)>;
  explicit CallbackThreads(Reply reply) : reply_(std::move(reply)) {}

  void SetHandler(CallbackHandler handler);
  void Call(wire::Callback call);
  // Drops what has not begun. Calls that run go on.
  void Stop();

 private:
  void ThreadMain();
  wire::ClientMessage Answer(const wire::Callback& call, const CallbackHandler& handler) const;

  const Reply reply_;
  Mutex mutex_;
  CondVar work_;
  CallbackHandler handler_ SHARDWAY_GUARDED_BY(mutex_);
  std::deque<wire::Callback> queue_ SHARDWAY_GUARDED_BY(mutex_);
  int threads_ SHARDWAY_GUARDED_BY(mutex_) = 0;
  int idle_ SHARDWAY_GUARDED_BY(mutex_) = 0;
  bool stopped_ SHARDWAY_GUARDED_BY(mutex_) = false;
};

}  // namespace shardway::client
