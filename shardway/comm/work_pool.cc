#include "shardway/comm/work_pool.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "shardway/comm/float_mode.h"

namespace shardway::comm {

WorkPool::WorkPool(int num_threads) {
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Loop(); });
}

WorkPool::~WorkPool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

void WorkPool::Schedule(std::function<void()> task) {
  {
    MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.NotifyOne();
}

void WorkPool::Share(int n, std::function<void(int)> piece, std::function<void()> done) {
  struct Job {
    std::function<void(int)> piece;
    std::function<void()> done;
    int n;
    std::atomic<int> next{0};
    std::atomic<int> unfinished;
  };
  auto job = std::make_shared<Job>();
  job->piece = std::move(piece);
  job->done = std::move(done);
  job->n = n;
  job->unfinished.store(n, std::memory_order_relaxed);
  const auto run = [](const std::shared_ptr<Job>& job) {
    int finished = 0;
    for (int i; (i = job->next.fetch_add(1, std::memory_order_relaxed)) < job->n; ++finished) {
      job->piece(i);
    }
    if (finished != 0 &&
        job->unfinished.fetch_sub(finished, std::memory_order_acq_rel) == finished) {
      job->done();
    }
  };
  const int helpers = std::min<int>(n, static_cast<int>(threads_.size())) - 1;
  for (int i = 0; i < helpers; ++i) Schedule([job, run] { run(job); });
  run(job);
}

void WorkPool::Loop() {
  const ScopedXlaFloatMode float_mode;
  for (;;) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      while (tasks_.empty() && !stopping_) wake_.Wait(mutex_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace shardway::comm
