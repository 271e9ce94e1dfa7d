#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "shardway/pjrt_plugin/api_fixture.h"

namespace shardway::pjrt_plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ExecuteTest : public ApiTest {
 protected:
  const float x_[2] = {1, 2};
};

TEST_F(ExecuteTest, IsOneRunAndOneFree) {
  PJRT_LoadedExecutable* f = Compile(1, 2);
  const auto a = PutOnAll(x_, {2});
  log->TakeCalls();
  const Launched launched = Execute(f, {a}, 2);
  EXPECT_THAT(log->TakeCalls(), ElementsAre("run 1 of 1"));
  float back[2];
  EXPECT_EQ(Read(launched.results[0][2], back, sizeof(back)), absl::StatusCode::kOk);
  EXPECT_THAT(back, ElementsAre(1, 2));
  log->TakeCalls();
  Destroy(launched);
  EXPECT_THAT(log->TakeCalls(), ElementsAre("free 2", "free 3"));
  Destroy(a);
  Destroy(f);
  EXPECT_THAT(log->TakeCalls(), ElementsAre("free 1", "free program 1"));
}

TEST_F(ExecuteTest, EventsAndResultsAwaitTheRun) {
  PJRT_LoadedExecutable* f = Compile(1, 1);
  const auto a = PutOnAll(x_, {2});
  log->hold_runs = true;
  const Launched launched = Execute(f, {a}, 1);
  PJRT_Event* ready = Ready(launched.results[0][1]);
  for (PJRT_Event* event : launched.events) EXPECT_FALSE(IsReady(event));
  EXPECT_FALSE(IsReady(ready));

  // A callback may destroy its event, and is called without a lock held.
  struct Waiter {
    ExecuteTest* test;
    PJRT_Event* event;
    int fired;
  } waiter{this, launched.events[0], 0};
  PJRT_Event_OnReady_Args on_ready{.struct_size = PJRT_Event_OnReady_Args_STRUCT_SIZE,
                                   .event = launched.events[0],
                                   .callback =
                                       [](PJRT_Error* error, void* arg) {
                                         auto* w = static_cast<Waiter*>(arg);
                                         EXPECT_EQ(w->test->Code(error),
                                                   absl::StatusCode::kInternal);
                                         EXPECT_TRUE(w->test->IsReady(w->event));
                                         w->test->Destroy(w->event);
                                         ++w->fired;
                                       },
                                   .user_arg = &waiter};
  EXPECT_EQ(Code(api->PJRT_Event_OnReady(&on_ready)), absl::StatusCode::kOk);
  log->FinishRuns(absl::InternalError("device 1 broke"));
  EXPECT_EQ(waiter.fired, 1);
  EXPECT_EQ(Await(ready), absl::StatusCode::kInternal);
  EXPECT_EQ(message, "device 1 broke");
  Destroy(ready);
  for (int d = 1; d < 4; ++d) {
    EXPECT_EQ(Await(launched.events[d]), absl::StatusCode::kInternal);
    Destroy(launched.events[d]);
  }
  Destroy(launched.results[0]);
  Destroy(a);
  Destroy(f);
}

TEST_F(ExecuteTest, AwaitBlocksUntilAnotherThreadEndsTheRun) {
  PJRT_LoadedExecutable* f = Compile(1, 1);
  const auto a = PutOnAll(x_, {2});
  log->hold_runs = true;
  const Launched launched = Execute(f, {a}, 1);
  std::thread finisher([&] { log->FinishRuns(absl::OkStatus()); });
  EXPECT_EQ(Await(launched.events[3]), absl::StatusCode::kOk);
  finisher.join();
  Destroy(launched);
  Destroy(a);
  Destroy(f);
}

TEST_F(ExecuteTest, ShardsOfSeveralArraysAreAssembledOnce) {
  PJRT_LoadedExecutable* f = Compile(2, 0);
  const auto a = PutOnAll(x_, {2});
  const auto b = PutOnAll(x_, {2});
  log->TakeCalls();
  const std::vector<PJRT_Buffer*> mixed = {a[0], a[1], b[2], b[3]};
  for (int i = 0; i < 3; ++i) Destroy(Execute(f, {mixed, a}, 0));
  EXPECT_THAT(log->TakeCalls(), ElementsAre("assemble 3 of 1:0,1:1,2:2,2:3", "run 1 of 3,1",
                                            "run 1 of 3,1", "run 1 of 3,1"));
  Destroy(b);  // the assembled array goes with the first of its members
  EXPECT_THAT(log->TakeCalls(), ElementsAre("free 2", "free 3"));
  Destroy(a);
  Destroy(f);
}

TEST_F(ExecuteTest, AnotherOrderOfDevicesIsAnotherArray) {
  PJRT_LoadedExecutable* f = Compile(1, 0);
  std::vector<PJRT_Buffer*> reversed;
  for (int d = 3; d >= 0; --d) reversed.push_back(Put(x_, {2}, d));
  log->TakeCalls();
  EXPECT_EQ(Execute(f, {reversed}, 0).code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      message,
      "argument 0 of program jit_f: its shard 0 is on device 3, the program runs it on device "
      "0");
  std::reverse(reversed.begin(), reversed.end());
  Destroy(Execute(f, {reversed}, 0));
  EXPECT_THAT(log->TakeCalls(), ElementsAre("assemble 2 of 1:3,1:2,1:1,1:0", "run 1 of 2"));
  Destroy(reversed);
  Destroy(f);
}

TEST_F(ExecuteTest, DonatedArgumentsAreDeleted) {
  PJRT_LoadedExecutable* f = Compile(2, 1, {0});
  const auto a = PutOnAll(x_, {2});
  const auto b = PutOnAll(x_, {2});
  log->TakeCalls();
  Destroy(Execute(f, {a, b}, 1));
  EXPECT_THAT(log->TakeCalls(), ElementsAre("run 1 of 1,2", "free 1", "free 3"));
  for (PJRT_Buffer* buffer : a) EXPECT_TRUE(IsDeleted(buffer));
  for (PJRT_Buffer* buffer : b) EXPECT_FALSE(IsDeleted(buffer));
  EXPECT_EQ(Execute(f, {b, a}, 1).code, absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message, HasSubstr("argument 1 of program jit_f: the array has been deleted"));
  EXPECT_FALSE(IsDeleted(b[0]));  // a call that does not start consumes nothing
  float back[2];
  EXPECT_EQ(Read(a[0], back, sizeof(back)), absl::StatusCode::kInvalidArgument);
  Destroy(a);
  Destroy(b);
  EXPECT_THAT(log->TakeCalls(), ElementsAre("free 2"));
  Destroy(f);
}

TEST_F(ExecuteTest, NonDonatableArgumentsStay) {
  PJRT_LoadedExecutable* f = Compile(2, 0, {0, 1});
  const auto a = PutOnAll(x_, {2});
  const auto b = PutOnAll(x_, {2});
  log->TakeCalls();
  Destroy(Execute(f, {a, b}, 0, {1}));
  EXPECT_THAT(log->TakeCalls(), ElementsAre("run 1 of 1,2 keep 1", "free 1"));
  EXPECT_FALSE(IsDeleted(b[0]));
  Destroy(a);
  Destroy(b);
  Destroy(f);
}

TEST_F(ExecuteTest, ADonatedArrayIsUsedOnce) {
  PJRT_LoadedExecutable* f = Compile(3, 0, {1, 2});
  const auto a = PutOnAll(x_, {2});
  const auto b = PutOnAll(x_, {2});
  log->TakeCalls();
  EXPECT_EQ(Execute(f, {b, a, a}, 0).code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(message, "program jit_f is given one array as arguments 1 and 2, and both are donated");
  EXPECT_EQ(Execute(f, {b, a, b}, 0).code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(message,
            "program jit_f is given one array as argument 2, which is donated, and as argument 0");
  EXPECT_THAT(log->TakeCalls(), IsEmpty());
  Destroy(a);
  Destroy(b);
  Destroy(f);
}

TEST_F(ExecuteTest, DonatedShardsOfSeveralArrays) {
  PJRT_LoadedExecutable* f = Compile(1, 0, {0});
  const auto a = PutOnAll(x_, {2});
  const auto b = PutOnAll(x_, {2});
  log->TakeCalls();
  Destroy(Execute(f, {{a[0], a[1], b[2], b[3]}}, 0));
  EXPECT_THAT(log->TakeCalls(),
              ElementsAre("assemble 3 of 1:0,1:1,2:2,2:3", "run 1 of 3", "free 3"));
  EXPECT_TRUE(IsDeleted(a[0]));
  EXPECT_FALSE(IsDeleted(a[2]));
  Destroy(a);
  Destroy(b);
  EXPECT_THAT(log->TakeCalls(), ElementsAre("free 1", "free 2"));
  Destroy(f);
}

TEST_F(ExecuteTest, WrongCalls) {
  PJRT_LoadedExecutable* f = Compile(1, 0);
  EXPECT_EQ(Execute(f, {}, 0).code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(message, "program jit_f takes 1 arguments and was given 0");
  PJRT_LoadedExecutable_Delete_Args deletion{
      .struct_size = PJRT_LoadedExecutable_Delete_Args_STRUCT_SIZE, .executable = f};
  EXPECT_EQ(Code(api->PJRT_LoadedExecutable_Delete(&deletion)), absl::StatusCode::kOk);
  const auto a = PutOnAll(x_, {2});
  EXPECT_EQ(Execute(f, {a}, 0).code, absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(message, "program jit_f has been deleted");
  Destroy(a);
  Destroy(f);
}

TEST_F(ExecuteTest, CompileErrorsReachTheCaller) {
  EXPECT_EQ(CompileText("bad"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(message, "line 1: this is no program");
}

}  // namespace
}  // namespace shardway::pjrt_plugin
