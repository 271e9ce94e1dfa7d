// Which session a launch belongs to: a host callback learns its launch from XLA, and must tell the
// controller whose it is. Only launches of programs with callbacks are entered. Thread-safe.
#pragma once

#include <optional>

#include "absl/container/flat_hash_map.h"
#include "shardway/base/ids.h"
#include "shardway/base/mutex.h"
#include "shardway/comm/communicator.h"
#include "shardway/comm/run_id.h"

namespace shardway::worker {

class LaunchRegistry {
 public:
  void Enter(comm::LaunchId launch, SessionId session) {
    MutexLock lock(mutex_);
    sessions_[comm::LaunchKeyOf(launch)] = session;
  }
  void Leave(comm::LaunchId launch) {
    MutexLock lock(mutex_);
    sessions_.erase(comm::LaunchKeyOf(launch));
  }
  std::optional<SessionId> FindByKey(int32_t key) const {
    MutexLock lock(mutex_);
    auto it = sessions_.find(key);
    if (it == sessions_.end()) return std::nullopt;
    return it->second;
  }

 private:
  mutable Mutex mutex_;
  // By the launch's key: what a handler knows.
  absl::flat_hash_map<int32_t, SessionId> sessions_ SHARDWAY_GUARDED_BY(mutex_);
};

}  // namespace shardway::worker
