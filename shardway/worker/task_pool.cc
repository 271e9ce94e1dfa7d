#include "shardway/worker/task_pool.h"

#include <pthread.h>

#include <utility>

namespace shardway::worker {

TaskPool::TaskPool(std::string name, int max_threads)
    : name_(std::move(name)), max_threads_(max_threads) {}

TaskPool::~TaskPool() {
  std::vector<std::thread> threads;
  std::deque<Task> dropped;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
    dropped.swap(tasks_);
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads) thread.join();
}

void TaskPool::Submit(Task task) {
  MutexLock lock(mutex_);
  if (stopping_) return;
  tasks_.push_back(std::move(task));
  if (tasks_.size() <= idle_) {
    changed_.NotifyOne();
  } else if (threads_.size() < max_threads_) {
    threads_.emplace_back([this] { Loop(); });
    pthread_setname_np(threads_.back().native_handle(), name_.c_str());
  }
}

void TaskPool::Loop() {
  while (true) {
    Task task;
    {
      MutexLock lock(mutex_);
      ++idle_;
      while (tasks_.empty() && !stopping_) changed_.Wait(mutex_);
      --idle_;
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    std::move(task)();
  }
}

}  // namespace shardway::worker
