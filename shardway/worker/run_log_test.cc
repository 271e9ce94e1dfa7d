#include "shardway/worker/run_log.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

namespace shardway::worker {
namespace {

std::unique_ptr<Run> MakeRun(uint64_t id, uint32_t wake_bits) {
  auto run = std::make_unique<Run>();
  run->id = id;
  run->wake_bits = wake_bits;
  return run;
}

TEST(RunLogTest, LaunchIdsArePositiveAndRepeatLate) {
  EXPECT_EQ(LaunchIdOf(1), 1);
  EXPECT_EQ(LaunchIdOf(0x7ffffffe), 0x7ffffffe);
  EXPECT_EQ(LaunchIdOf(0x7fffffff), 0x7fffffff);
  EXPECT_EQ(LaunchIdOf(0x80000000), 1);
  EXPECT_GT(LaunchIdOf(~uint64_t{0}), 0);
}

TEST(RunLogTest, EveryCursorSeesEveryRunInOrder) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  constexpr int kDevices = 5;
  constexpr uint64_t kRuns = 20000;
  RunLog log(kDevices);
  std::vector<std::thread> threads;
  std::vector<uint64_t> seen(kDevices);
  std::vector<char> in_order(kDevices, true);  // not bits: each thread writes its own
  {
    std::vector<std::unique_ptr<RunLog::Cursor>> cursors;
    for (int device = 0; device < kDevices; ++device) {
      cursors.push_back(std::make_unique<RunLog::Cursor>(&log, device));
      threads.emplace_back([&, device, cursor = cursors.back().get()] {
        bool ok = true;
        while (worker::Run* run = cursor->Next()) ok &= run->id == ++seen[device];
        in_order[device] = ok;
      });
    }
    for (uint64_t id = 1; id <= kRuns; ++id) {
      // Mostly for one device: the others sleep, and must not miss what is theirs.
      log.Append(MakeRun(id, WakeBit(random() % kDevices)));
      if (random() % 512 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    log.Close();
    for (std::thread& thread : threads) thread.join();
  }
  for (int device = 0; device < kDevices; ++device) {
    EXPECT_EQ(seen[device], kRuns) << "device " << device;
    EXPECT_TRUE(in_order[device]) << "device " << device;
  }
}

TEST(RunLogTest, ASleepingDeviceIsWokenForItsRun) {
  RunLog log(2);
  RunLog::Cursor idle(&log, 0);
  RunLog::Cursor busy(&log, 1);
  std::atomic<uint64_t> got{0};
  std::thread sleeper([&] { got = busy.Next()->id; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  log.Append(MakeRun(7, WakeBit(1)));
  sleeper.join();
  EXPECT_EQ(got, 7u);
}

TEST(RunLogTest, FreesRunsThatAllHavePassed) {
  auto array = std::make_shared<store::Array>();
  RunLog log(2);
  RunLog::Cursor first(&log, 0);
  RunLog::Cursor second(&log, 1);
  for (int i = 0; i < 3; ++i) {
    auto run = MakeRun(i + 1, 3);
    run->arguments.push_back(array);
    log.Append(std::move(run));
  }
  EXPECT_EQ(array.use_count(), 4);
  first.Next();
  first.Next();
  EXPECT_EQ(array.use_count(), 4);
  second.Next();
  second.Next();
  EXPECT_EQ(array.use_count(), 3);  // the first run is behind both
}

}  // namespace
}  // namespace shardway::worker
