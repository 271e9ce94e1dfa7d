#include "shardway/worker/task_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

namespace shardway::worker {
namespace {

TEST(TaskPoolTest, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  Mutex mutex;
  CondVar changed;
  TaskPool pool("test", 1);
  for (int i = 0; i < 100; ++i) {
    pool.Submit([&, i] {
      MutexLock lock(mutex);
      order.push_back(i);
      changed.NotifyAll();
    });
  }
  MutexLock lock(mutex);
  while (order.size() < 100) changed.WaitFor(mutex, std::chrono::seconds(30));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

// What transfers between hosts rely on: a task that waits does not keep a later one from running.
TEST(TaskPoolTest, TasksThatWaitForEachOtherGetThreads) {
  constexpr int kTasks = 8;
  Mutex mutex;
  CondVar changed;
  int inside = 0;
  int ended = 0;
  TaskPool pool("test", kTasks);
  for (int i = 0; i < kTasks; ++i) {
    pool.Submit([&] {
      MutexLock lock(mutex);
      ++inside;
      changed.NotifyAll();
      while (inside < kTasks) changed.WaitFor(mutex, std::chrono::seconds(30));
      ++ended;
      changed.NotifyAll();
    });
  }
  MutexLock lock(mutex);
  while (ended < kTasks) ASSERT_TRUE(changed.WaitFor(mutex, std::chrono::seconds(60)));
}

TEST(TaskPoolTest, DropsWhatHasNotStarted) {
  auto held = std::make_shared<int>(0);
  {
    TaskPool pool("test", 1);
    for (int i = 0; i < 1000; ++i) pool.Submit([held] { ++*held; });
  }
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace shardway::worker
