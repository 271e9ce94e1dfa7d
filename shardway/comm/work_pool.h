// Threads with XLA's float mode: they share large collectives, and continue devices whose program
// goes on with real work when no thread of XLA's own pool can be had.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "shardway/base/mutex.h"

namespace shardway::comm {

// Thread-safe. The destructor runs what was scheduled, then joins.
class WorkPool {
 public:
  explicit WorkPool(int num_threads);
  ~WorkPool();

  void Schedule(std::function<void()> task);

  // Calls piece(0), …, piece(n - 1) on this thread and the pool's, then `done`, once, on the thread
  // that finished last. Doesn't wait: `done` may still be to come when this returns.
  void Share(int n, std::function<void(int)> piece, std::function<void()> done);

 private:
  void Loop();

  Mutex mutex_;
  CondVar wake_;
  std::deque<std::function<void()>> tasks_ SHARDWAY_GUARDED_BY(mutex_);
  bool stopping_ SHARDWAY_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace shardway::comm
