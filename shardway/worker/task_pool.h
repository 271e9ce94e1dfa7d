// Threads for work that must not run on an executor or on the control thread: uploads, reads,
// copies, compilation. Tasks start in the order in which they were submitted.
#pragma once

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "shardway/base/mutex.h"

namespace shardway::worker {

class TaskPool {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  // Threads are started when they are needed, at most `max_threads`. `name`: at most 15 characters.
  TaskPool(std::string name, int max_threads);
  // Drops tasks that have not started; waits for those that have.
  ~TaskPool();

  void Submit(Task task);

 private:
  void Loop();

  const std::string name_;
  const size_t max_threads_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Task> tasks_ SHARDWAY_GUARDED_BY(mutex_);
  size_t idle_ SHARDWAY_GUARDED_BY(mutex_) = 0;
  bool stopping_ SHARDWAY_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ SHARDWAY_GUARDED_BY(mutex_);
};

}  // namespace shardway::worker
