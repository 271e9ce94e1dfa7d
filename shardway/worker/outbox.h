// The worker's way to the controller.
//
// Ended runs and operations are gathered into HostDone messages. One goes out when nothing is
// queued behind the run that ended, when kMaxBatch have gathered, or when the first has waited for
// kMaxAge: pipelined runs cost few messages, a lone run is answered at once. An executor sends in
// its own thread; the control thread never sends (it must go on reading, or both ends could wait
// for each other): what it posts goes out on the outbox's thread.
#pragma once

#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "shardway/base/clock.h"
#include "shardway/base/mutex.h"
#include "shardway/wire/channel.h"
#include "shardway/wire/worker.pb.h"

namespace shardway::worker {

// Thread-safe. `channel` outlives it.
class Outbox {
 public:
  static constexpr int kMaxBatch = 32;
  static constexpr Duration kMaxAge = std::chrono::milliseconds(1);

  enum class Urgency {
    kGather,   // may wait for others, at most kMaxAge
    kSendNow,  // send what has gathered in this thread
    kPost,     // the same, but on the outbox's thread
  };

  explicit Outbox(wire::Channel* channel);
  ~Outbox();  // sends what is left

  // The run or operation `id` has ended on this host.
  void Ended(uint64_t id, const absl::Status& status, Urgency urgency);

  // Sends in this thread: not for the control thread.
  void Send(const wire::FromWorker& message);
  // Sends on the outbox's thread, in order.
  void Post(wire::FromWorker message);

 private:
  void Loop();

  wire::Channel* const channel_;
  Mutex mutex_;
  CondVar changed_;
  wire::FromWorker gathered_ SHARDWAY_GUARDED_BY(mutex_);
  int num_gathered_ SHARDWAY_GUARDED_BY(mutex_) = 0;
  TimePoint first_gathered_ SHARDWAY_GUARDED_BY(mutex_);
  bool flush_ SHARDWAY_GUARDED_BY(mutex_) = false;
  bool ticking_ SHARDWAY_GUARDED_BY(mutex_) = false;  // the thread looks every kMaxAge
  bool stopping_ SHARDWAY_GUARDED_BY(mutex_) = false;
  std::vector<wire::FromWorker> posted_ SHARDWAY_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace shardway::worker
