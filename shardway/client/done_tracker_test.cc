#include "shardway/client/done_tracker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "shardway/wire/validate.h"

namespace shardway::client {
namespace {

wire::Done DoneOf(std::initializer_list<uint64_t> seqs) {
  wire::Done done;
  for (uint64_t seq : seqs) done.add_seqs(seq);
  return done;
}

wire::Done FailureOf(uint64_t seq, const absl::Status& status) {
  wire::Done done;
  auto* failure = done.add_failures();
  failure->set_seq(seq);
  wire::ToProto(status, failure->mutable_status());
  return done;
}

struct Outcome {
  int calls = 0;
  absl::Status status;
  DoneTracker::Callback Callback() {
    return [this](const absl::Status& result) {
      ++calls;
      status = result;
    };
  }
};

void Begin(DoneTracker& tracker, uint64_t seq, uint64_t first, int count, Outcome* done = nullptr) {
  DoneTracker::Callback callback;
  if (done != nullptr) callback = done->Callback();
  ASSERT_TRUE(tracker.Begin(seq, {first}, count, &callback).ok());
}

TEST(DoneTrackerTest, OnAllEndedAwaitsWhatIsOutstandingNow) {
  DoneTracker tracker;
  int called = 0;
  tracker.OnAllEnded([&] { ++called; });
  EXPECT_EQ(called, 1) << "nothing is outstanding";
  DoneTracker::Callback none;
  for (uint64_t seq : {1, 2}) ASSERT_TRUE(tracker.Begin(seq, {seq}, 1, &none).ok());
  tracker.OnAllEnded([&] { ++called; });
  ASSERT_TRUE(tracker.Begin(3, {3}, 1, &none).ok());
  wire::Done done;
  done.add_seqs(2);
  tracker.Finish(done);
  EXPECT_EQ(called, 1);
  done.set_seqs(0, 1);
  tracker.Finish(done);
  EXPECT_EQ(called, 2) << "what began later does not count";
  tracker.OnAllEnded([&] { ++called; });
  tracker.FailAll(absl::UnavailableError("over"));
  EXPECT_EQ(called, 3);
}

TEST(DoneTrackerTest, ArraysAreReadyWhenTheirOperationIsDone) {
  DoneTracker tracker;
  Outcome run, second;
  Begin(tracker, 1, 10, 3, &run);
  Begin(tracker, 2, 13, 1);
  EXPECT_FALSE(tracker.IsReady({10}));
  tracker.OnReady({11}, second.Callback());
  EXPECT_EQ(second.calls, 0);
  tracker.Finish(DoneOf({1}));
  EXPECT_EQ(run.calls, 1);
  EXPECT_EQ(second.calls, 1);
  EXPECT_TRUE(second.status.ok());
  EXPECT_TRUE(tracker.IsReady({12}));
  EXPECT_FALSE(tracker.IsReady({13}));
  tracker.Finish(DoneOf({1, 77}));  // again, and never begun: ignored
  EXPECT_EQ(run.calls, 1);
}

TEST(DoneTrackerTest, AFailurePoisonsAllItsArrays) {
  DoneTracker tracker;
  Begin(tracker, 5, 1, 2);
  tracker.Finish(FailureOf(5, absl::InternalError("first cause")));
  tracker.Finish(FailureOf(5, absl::InternalError("second cause")));
  for (uint64_t array : {1, 2}) {
    Outcome outcome;
    tracker.OnReady({array}, outcome.Callback());
    EXPECT_EQ(outcome.status, absl::InternalError("first cause"));
  }
}

TEST(DoneTrackerTest, UnknownAndFreedArrays) {
  DoneTracker tracker;
  Outcome unknown, waiting, freed;
  tracker.OnReady({3}, unknown.Callback());
  EXPECT_EQ(unknown.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(tracker.IsReady({3}));
  EXPECT_FALSE(tracker.Free({3}));
  Begin(tracker, 1, 3, 1);
  tracker.OnReady({3}, waiting.Callback());
  EXPECT_TRUE(tracker.Free({3}));
  EXPECT_FALSE(tracker.Free({3}));
  tracker.OnReady({3}, freed.Callback());
  EXPECT_EQ(freed.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(waiting.calls, 0);  // who waited before the free still hears
  tracker.Finish(DoneOf({1}));
  EXPECT_EQ(waiting.calls, 1);
  EXPECT_TRUE(waiting.status.ok());
}

TEST(DoneTrackerTest, TheEndFailsWhatIsOutstandingAndWhatComesLater) {
  DoneTracker tracker;
  Outcome done, waiting, later, after;
  Begin(tracker, 1, 1, 1);
  Begin(tracker, 2, 2, 1, &done);
  tracker.OnReady({2}, waiting.Callback());
  tracker.Finish(DoneOf({1}));
  tracker.FailAll(absl::UnavailableError("gone"));
  tracker.FailAll(absl::UnavailableError("gone again"));
  EXPECT_EQ(done.status, absl::UnavailableError("gone"));
  EXPECT_EQ(waiting.calls, 1);
  tracker.OnReady({1}, after.Callback());
  EXPECT_TRUE(after.status.ok());  // it had ended well
  DoneTracker::Callback left = later.Callback();
  EXPECT_EQ(tracker.Begin(3, {3}, 1, &left), absl::UnavailableError("gone"));
  EXPECT_EQ(later.calls, 0);
  EXPECT_TRUE(left != nullptr);
  Outcome poisoned;
  tracker.OnReady({3}, poisoned.Callback());
  EXPECT_EQ(poisoned.status, absl::UnavailableError("gone"));
}

TEST(DoneTrackerTest, ACallbackMayUseTheTracker) {
  DoneTracker tracker;
  Outcome inner;
  DoneTracker::Callback none;
  ASSERT_TRUE(tracker.Begin(1, {1}, 1, &none).ok());
  tracker.OnReady({1}, [&](const absl::Status&) {
    tracker.OnReady({1}, inner.Callback());
    tracker.Free({1});
  });
  tracker.Finish(DoneOf({1}));
  EXPECT_EQ(inner.calls, 1);
}

TEST(DoneTrackerTest, RandomOrdersFromTwoThreads) {
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  DoneTracker tracker;
  constexpr uint64_t kOperations = 20000;
  std::atomic<uint64_t> begun{0};
  std::atomic<int> calls{0};
  std::thread ender([&] {
    std::mt19937 order(seed + 1);
    std::vector<uint64_t> open;
    uint64_t next = 1;
    while (next <= kOperations || !open.empty()) {
      while (next <= begun.load()) open.push_back(next++);
      if (open.empty()) continue;
      std::swap(open[order() % open.size()], open.back());
      tracker.Finish(DoneOf({open.back()}));
      open.pop_back();
    }
  });
  uint64_t id = 1;
  std::set<uint64_t> live;
  for (uint64_t seq = 1; seq <= kOperations; ++seq) {
    const int count = static_cast<int>(random() % 5);
    DoneTracker::Callback done = [&](const absl::Status&) { ++calls; };
    ASSERT_TRUE(tracker.Begin(seq, {id}, count, &done).ok());
    for (int i = 0; i < count; ++i) live.insert(id++);
    begun.store(seq);
    while (live.size() > 300) {
      ASSERT_TRUE(tracker.Free({*live.begin()}));
      live.erase(live.begin());
    }
  }
  ender.join();
  EXPECT_EQ(calls.load(), static_cast<int>(kOperations));
  for (uint64_t array : live) EXPECT_TRUE(tracker.IsReady({array}));
}

TEST(DoneTrackerTest, WhoRunsFarAheadWaits) {
  DoneTracker tracker;
  const uint64_t limit = DoneTracker::kMaxOutstanding;
  for (uint64_t seq = 1; seq <= limit; ++seq) {
    tracker.AwaitRoom();  // never waits here
    Begin(tracker, seq, seq, 1);
  }
  std::atomic<bool> through{false};
  std::thread ahead([&] {
    tracker.AwaitRoom();
    through = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(through);
  for (uint64_t seq = 1; seq <= limit / 2; ++seq) tracker.Finish(DoneOf({seq}));
  ahead.join();
  EXPECT_TRUE(through);
}

TEST(DoneTrackerTest, TheEndOfTheSessionEndsTheWait) {
  DoneTracker tracker;
  for (uint64_t seq = 1; seq <= DoneTracker::kMaxOutstanding; ++seq) Begin(tracker, seq, seq, 1);
  std::thread ahead([&] { tracker.AwaitRoom(); });
  tracker.FailAll(absl::UnavailableError("gone"));
  ahead.join();
  EXPECT_TRUE(tracker.IsReady({1}));
}

}  // namespace
}  // namespace shardway::client
