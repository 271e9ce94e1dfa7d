#include "shardway/scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace shardway::scheduler {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr int64_t kPlenty = int64_t{1} << 40;

class SchedulerTest : public ::testing::Test {
 protected:
  const topology::Slice* Slice(std::vector<int> devices) { return *slices_.Intern(devices); }
  TimePoint Now() const { return clock_.Now(); }
  static std::unique_ptr<Work> NoWork() { return std::make_unique<Work>(); }

  topology::SliceTable slices_{
      *topology::Topology::Create({.islands = 2, .hosts = 1, .devices = 2})};
  FakeClock clock_;
};

TEST_F(SchedulerTest, AnEmptyQueueIsPassedStraightThrough) {
  Scheduler scheduler(2, {});
  SessionQueue* a = scheduler.AddSession("a", 1, kPlenty);
  for (int i = 0; i < 100; ++i) {
    Gang gang{.session = a, .slice = Slice({0, 1}), .bytes = 8, .program = 1};
    ASSERT_TRUE(scheduler.Check(gang).ok());
    EXPECT_TRUE(scheduler.Start(gang, Now()));
  }
  EXPECT_FALSE(scheduler.Next(Now()).has_value());
}

TEST_F(SchedulerTest, DepthBoundsWhatIsOnItsWay) {
  Scheduler scheduler(2, {.max_in_flight = 2, .max_queued = 1});
  SessionQueue* a = scheduler.AddSession("a", 1, kPlenty);
  Gang gang{.session = a, .slice = Slice({0}), .program = 1};
  Gang second = gang;
  Gang third = gang;
  EXPECT_TRUE(scheduler.Start(gang, Now()));
  EXPECT_TRUE(scheduler.Start(second, Now()));
  EXPECT_FALSE(scheduler.Start(third, Now()));
  scheduler.Enqueue(third, NoWork());
  EXPECT_EQ(scheduler.Check(third).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(scheduler.Next(Now()).has_value());
  scheduler.Finished(gang, Now());
  EXPECT_TRUE(scheduler.Next(Now()).has_value());
  EXPECT_TRUE(scheduler.idle());
}

// A budget of two arrays and a long chain y = f(x), each x freed as soon as y is launched.
TEST_F(SchedulerTest, AChainRunsInABudgetOfTwoArrays) {
  constexpr int kSteps = 10000;
  Scheduler scheduler(2, {});
  const topology::Slice* slice = Slice({0, 1, 2, 3});
  SessionQueue* a = scheduler.AddSession("a", 1, 2 * 64);
  std::deque<Gang> in_flight;
  size_t deepest = 0;
  for (int i = 0; i < kSteps; ++i) {
    scheduler.Enqueue({.session = a, .slice = slice, .bytes = 64, .program = 1}, NoWork());
  }
  int started = 0;
  for (;;) {
    while (auto next = scheduler.Next(Now())) {
      in_flight.push_back(next->gang);
      ++started;
    }
    deepest = std::max(deepest, in_flight.size());
    if (in_flight.empty()) break;
    clock_.Advance(microseconds(10));
    scheduler.Finished(in_flight.front(), Now());
    scheduler.Release(a, *slice, 64);  // its argument
    in_flight.pop_front();
  }
  EXPECT_EQ(started, kSteps);
  EXPECT_EQ(deepest, 2u);
}

TEST_F(SchedulerTest, WhatCanNeverFitIsRefusedAtOnce) {
  Scheduler scheduler(2, {});
  SessionQueue* a = scheduler.AddSession("a", 1, 100);
  const absl::Status status = scheduler.Check({.session = a, .slice = Slice({0}), .bytes = 101});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("101 bytes per device"));
}

TEST_F(SchedulerTest, OnlyTheFullestDeviceCounts) {
  Scheduler scheduler(2, {});
  SessionQueue* a = scheduler.AddSession("a", 1, 100);
  for (int device = 0; device < 4; ++device) {
    Gang gang{.session = a, .slice = Slice({device}), .bytes = 60};
    EXPECT_TRUE(scheduler.Start(gang, Now())) << device;
  }
  Gang all{.session = a, .slice = Slice({0, 1, 2, 3}), .bytes = 41};
  EXPECT_FALSE(scheduler.Start(all, Now()));
  all.bytes = 40;
  EXPECT_TRUE(scheduler.Start(all, Now()));
}

TEST_F(SchedulerTest, AGangThatNobodyMakesRoomForExpires) {
  Scheduler scheduler(2, {.memory_patience = seconds(10)});
  SessionQueue* a = scheduler.AddSession("a", 1, 100);
  Gang held{.session = a, .slice = Slice({0}), .bytes = 80};
  EXPECT_TRUE(scheduler.Start(held, Now()));
  scheduler.Enqueue({.session = a, .slice = Slice({0}), .bytes = 30}, NoWork());
  EXPECT_FALSE(scheduler.Next(Now()).has_value());
  clock_.Advance(seconds(20));
  EXPECT_TRUE(scheduler.Expired(Now()).empty()) << "something is on its way: it may make room";
  scheduler.Finished(held, Now());
  EXPECT_FALSE(scheduler.Next(Now()).has_value());
  clock_.Advance(seconds(9));
  EXPECT_TRUE(scheduler.Expired(Now()).empty());
  clock_.Advance(seconds(2));
  EXPECT_EQ(scheduler.Expired(Now()).size(), 1u);
  EXPECT_TRUE(scheduler.idle());
}

// Sessions that always have work: a device runs one gang at a time, in order.
class SharesTest : public SchedulerTest {
 protected:
  struct Client {
    double weight;
    Duration work;
  };
  // Device seconds that each client got.
  std::vector<double> Simulate(const std::vector<Client>& clients, Duration length) {
    Scheduler scheduler(2, {});
    const topology::Slice* slice = Slice({0, 1, 2, 3});
    std::vector<SessionQueue*> sessions;
    std::map<SessionQueue*, size_t> index;
    std::vector<double> busy(clients.size());
    for (size_t i = 0; i < clients.size(); ++i) {
      sessions.push_back(scheduler.AddSession("c", clients[i].weight, kPlenty));
      index[sessions.back()] = i;
      for (int n = 0; n < 20000; ++n) {
        scheduler.Enqueue({.session = sessions[i], .slice = slice, .program = i + 1}, NoWork());
      }
    }
    std::deque<Gang> device;
    const TimePoint end = Now() + length;
    while (Now() < end) {
      while (auto next = scheduler.Next(Now())) device.push_back(next->gang);
      if (device.empty()) break;
      const Gang gang = device.front();
      device.pop_front();
      const size_t client = index[gang.session];
      clock_.Advance(clients[client].work);
      busy[client] += std::chrono::duration<double>(clients[client].work).count();
      scheduler.Finished(gang, Now());
    }
    return busy;
  }
};

TEST_F(SharesTest, EqualWeightsShareTimeNotCounts) {
  const std::vector<double> busy =
      Simulate({{1, microseconds(100)}, {1, microseconds(1000)}}, seconds(1));
  EXPECT_NEAR(busy[0] / busy[1], 1.0, 0.1);
}

TEST_F(SharesTest, WeightsAreHeld) {
  const Duration work = microseconds(330);
  const std::vector<double> busy =
      Simulate({{1, work}, {2, work}, {4, work}, {8, work}}, seconds(3));
  for (int i = 1; i < 4; ++i) {
    EXPECT_NEAR(busy[i] / busy[0], 1 << i, 0.1 * (1 << i)) << i;
  }
}

TEST_F(SchedulerTest, AWideGangIsNotStarvedByNarrowOnes) {
  Scheduler scheduler(2, {.window = milliseconds(1), .min_depth = 1});
  SessionQueue* wide = scheduler.AddSession("wide", 1, kPlenty);
  SessionQueue* left = scheduler.AddSession("left", 1, kPlenty);
  SessionQueue* right = scheduler.AddSession("right", 1, kPlenty);
  for (int i = 0; i < 1000; ++i) {
    scheduler.Enqueue({.session = left, .slice = Slice({0, 1}), .program = 1}, NoWork());
    scheduler.Enqueue({.session = right, .slice = Slice({2, 3}), .program = 2}, NoWork());
  }
  for (int i = 0; i < 100; ++i) {
    scheduler.Enqueue({.session = wide, .slice = Slice({0, 1, 2, 3}), .program = 3}, NoWork());
  }
  std::mt19937 random(7);
  std::vector<Gang> in_flight;
  int wide_ended = 0;
  for (int step = 0; step < 450 && wide_ended < 100; ++step) {
    while (auto next = scheduler.Next(Now())) in_flight.push_back(next->gang);
    clock_.Advance(microseconds(300));
    const size_t pick = random() % in_flight.size();
    wide_ended += in_flight[pick].session == wide;
    scheduler.Finished(in_flight[pick], Now());
    in_flight.erase(in_flight.begin() + pick);
  }
  EXPECT_EQ(wide_ended, 100);
}

TEST_F(SchedulerTest, ARemovedSessionGivesItsQueueBack) {
  Scheduler scheduler(2, {.max_in_flight = 1});
  SessionQueue* a = scheduler.AddSession("a", 1, kPlenty);
  Gang gang{.session = a, .slice = Slice({0}), .program = 1};
  EXPECT_TRUE(scheduler.Start(gang, Now()));
  scheduler.Enqueue({.session = a, .slice = Slice({0}), .program = 1}, NoWork());
  EXPECT_EQ(scheduler.RemoveSession(a).size(), 1u);
  EXPECT_TRUE(scheduler.idle());
  scheduler.Finished(gang, Now());  // must not touch what is gone
}

}  // namespace
}  // namespace shardway::scheduler
