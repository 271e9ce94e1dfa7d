// Which session a launch belongs to: a host callback learns its launch from XLA, and must tell the
// controller whose it is. Only launches of programs with callbacks are entered. Thread-safe.
#pragma once

#include <optional>

#include "absl/container/flat_hash_map.h"
#include "shardway/base/ids.h"
#include "shardway/base/mutex.h"
#include "shardway/comm/communicator.h"

namespace shardway::worker {

class LaunchRegistry {
 public:
  void Enter(comm::LaunchId launch, SessionId session) {
    MutexLock lock(mutex_);
    sessions_[launch] = session;
  }
  void Leave(comm::LaunchId launch) {
    MutexLock lock(mutex_);
    sessions_.erase(launch);
  }
  std::optional<SessionId> Find(comm::LaunchId launch) const {
    MutexLock lock(mutex_);
    auto it = sessions_.find(launch);
    if (it == sessions_.end()) return std::nullopt;
    return it->second;
  }

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<comm::LaunchId, SessionId> sessions_ SHARDWAY_GUARDED_BY(mutex_);
};

}  // namespace shardway::worker
