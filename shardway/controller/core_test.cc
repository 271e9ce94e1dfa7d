#include "shardway/controller/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "shardway/wire/validate.h"

namespace shardway::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr int64_t kPlenty = int64_t{1} << 40;
constexpr int64_t kArrayBytes = 64;  // per shard of every array here: f32[16]

class FakePort : public WorkerPort {
 public:
  absl::Status Send(std::string_view message, int) override {
    if (!broken.ok()) return broken;
    sent.emplace_back();
    EXPECT_TRUE(sent.back().ParseFromArray(message.data(), static_cast<int>(message.size())));
    return absl::OkStatus();
  }
  std::vector<wire::ToWorker> Take() { return std::exchange(sent, {}); }

  std::vector<wire::ToWorker> sent;
  absl::Status broken;
};

class Sink : public SessionSink {
 public:
  void Deliver(SessionEvents events) override {
    for (uint64_t seq : events.ended) ended.push_back(seq);
    for (auto& failure : events.failures) failures[failure.seq] = failure.status;
    for (auto& read : events.reads) reads[read.request] = read;
    for (auto& compiled : events.compiled)
      compiled_status[compiled.program] = compiled.result.status();
    for (auto& callback : events.callbacks) callbacks.push_back(callback);
    for (auto& stats : events.memory) memory[stats.request] = stats;
  }
  std::vector<uint64_t> ended;
  std::map<uint64_t, absl::Status> failures;
  std::map<uint64_t, SessionEvents::ReadDone> reads;
  std::map<uint64_t, absl::Status> compiled_status;
  std::vector<SessionEvents::Callback> callbacks;
  std::map<uint64_t, SessionEvents::MemoryStats> memory;
};

// Two hosts of two devices. Programs map one f32[16] per shard to one.
class CoreTest : public ::testing::Test {
 protected:
  void Open(int64_t budget = kPlenty, scheduler::SchedulerOptions options = {}) {
    core_ = std::make_unique<Core>(
        *topology::Topology::Create({.islands = 2, .hosts = 1, .devices = 2}),
        std::vector<WorkerPort*>{&ports_[0], &ports_[1]}, options);
    session_ = core_->OpenSession("test", sink_, budget, -1, 1 << 20);
    EndTurn();
    ports_[0].Take();
    ports_[1].Take();
  }
  void EndTurn() {
    core_->EndTurn(clock_.Now());
    for (auto& [sink, events] : core_->TakeEvents()) sink->Deliver(std::move(events));
  }
  absl::Status Send(wire::ClientMessage message) {
    const absl::Status valid = wire::Validate(message, {.num_devices = 4, .arena_bytes = 1 << 20});
    EXPECT_TRUE(valid.ok()) << valid;
    absl::Status status = core_->Handle(session_, message, clock_.Now(), &tasks_);
    EndTurn();
    return status;
  }
  absl::Status Put(uint64_t array, std::vector<int> devices = {0, 1, 2, 3}) {
    wire::ClientMessage message;
    wire::PutArray& put = *message.mutable_put();
    put.set_seq(++seq_);
    put.set_array(array);
    put.set_element(static_cast<uint32_t>(ElementType::kF32));
    put.add_shard_dims(16);
    for (int device : devices) {
      put.add_devices(device);
      put.add_offsets(0);
    }
    return Send(message);
  }
  void Compile(uint64_t program, std::vector<int> devices = {0, 1, 2, 3}, bool donated = false) {
    wire::ClientMessage message;
    message.mutable_compile()->set_program(program);
    message.mutable_compile()->set_artifact("code");
    auto& options = *message.mutable_compile()->mutable_options();
    options.set_num_replicas(1);
    options.set_num_partitions(devices.size());
    options.mutable_devices()->Assign(devices.begin(), devices.end());
    EXPECT_TRUE(Send(message).ok());
    ASSERT_EQ(tasks_.size(), 1u);
    auto made = std::make_shared<compile::Partitioned>();
    made->name = "jit_f";
    made->text = "module {}";
    made->num_partitions = devices.size();
    compile::Boundary boundary = {
        .element = ElementType::kF32, .global_dims = {64}, .local_dims = {16}};
    made->results = {boundary};
    boundary.donated = donated;
    made->parameters = {boundary};
    core_->ProgramCompiled(tasks_[0], program::ProgramPtr(made));
    tasks_.clear();
    EndTurn();
    ports_[0].Take();
    ports_[1].Take();
  }
  absl::Status Run(uint64_t program, std::vector<uint64_t> arguments, uint64_t result) {
    wire::ClientMessage message;
    wire::Run& run = *message.mutable_run();
    run.set_seq(++seq_);
    run.set_program(program);
    run.mutable_arguments()->Assign(arguments.begin(), arguments.end());
    run.add_results(result);
    return Send(message);
  }
  void Free(std::vector<uint64_t> arrays) {
    wire::ClientMessage message;
    message.mutable_free()->mutable_arrays()->Assign(arrays.begin(), arrays.end());
    EXPECT_TRUE(Send(message).ok());
  }
  void Read(uint64_t request, uint64_t array, uint32_t shard = 0) {
    wire::ClientMessage message;
    message.mutable_read()->set_request(request);
    message.mutable_read()->set_array(array);
    message.mutable_read()->set_shard(shard);
    EXPECT_TRUE(Send(message).ok());
  }
  void Done(int host, uint64_t op, const absl::Status& status = absl::OkStatus()) {
    wire::FromWorker message;
    if (status.ok()) {
      message.mutable_done()->add_ids(op);
    } else {
      auto& failure = *message.mutable_done()->add_failures();
      failure.set_id(op);
      wire::ToProto(status, failure.mutable_status());
    }
    core_->WorkerSaid(host, message, clock_.Now());
    EndTurn();
  }
  // The number of the only operation among the messages.
  static uint64_t OpOf(const std::vector<wire::ToWorker>& messages) {
    uint64_t op = 0;
    for (const auto& message : messages) {
      const uint64_t here = message.has_run()        ? message.run().run()
                            : message.has_put()      ? message.put().op()
                            : message.has_assemble() ? message.assemble().op()
                            : message.has_copy()     ? message.copy().op()
                                                     : 0;
      if (here != 0) op = here;
    }
    return op;
  }
  // Lets every operation sent so far end well.
  void EndAll() {
    for (int host = 0; host < 2; ++host) {
      for (const wire::ToWorker& message : ports_[host].Take()) {
        if (const uint64_t op = OpOf({message})) Done(host, op);
      }
    }
  }
  uint64_t Global(uint64_t id) const { return GlobalId(session_, ArrayId{id}).value; }

  FakeClock clock_;
  FakePort ports_[2];
  std::unique_ptr<Core> core_;
  SessionId session_;
  std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();
  std::vector<CompileTask> tasks_;
  uint64_t seq_ = 0;
};

TEST_F(CoreTest, ARunIsOneMessageToEachHostAndEndsWhenBothSaySo) {
  Open();
  Compile(1);
  ASSERT_TRUE(Put(1).ok());
  EndAll();
  EXPECT_THAT(sink_->ended, ElementsAre(1));
  ASSERT_TRUE(Run(1, {1}, 2).ok());
  const auto left = ports_[0].Take();
  const auto right = ports_[1].Take();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].SerializeAsString(), right[0].SerializeAsString());
  EXPECT_THAT(left[0].run().arguments(), ElementsAre(Global(1)));
  EXPECT_THAT(left[0].run().results(), ElementsAre(Global(2)));
  Done(0, OpOf(left));
  EXPECT_THAT(sink_->ended, ElementsAre(1));
  Done(1, OpOf(right));
  EXPECT_THAT(sink_->ended, ElementsAre(1, 2));
}

TEST_F(CoreTest, OnlyHostsThatTakePartHear) {
  Open();
  Compile(1, {2, 3});
  ASSERT_TRUE(Put(1, {2, 3}).ok());
  ASSERT_TRUE(Run(1, {1}, 2).ok());
  EXPECT_THAT(ports_[0].Take(), IsEmpty());
  EXPECT_EQ(ports_[1].Take().size(), 2u);
}

TEST_F(CoreTest, AFailedRunPoisonsWhatFollowsWithItsCause) {
  Open();
  Compile(1);
  ASSERT_TRUE(Put(1).ok());
  EndAll();
  ASSERT_TRUE(Run(1, {1}, 2).ok());
  const uint64_t op = OpOf(ports_[0].Take());
  Done(0, op, absl::InternalError("device 1 broke"));
  EXPECT_THAT(sink_->failures, IsEmpty()) << "the other host has not ended";
  Done(1, op, absl::AbortedError("a peer left"));
  EXPECT_EQ(sink_->failures[2].message(), "device 1 broke") << "the first cause";
  ports_[1].Take();

  ASSERT_TRUE(Run(1, {2}, 3).ok());
  EXPECT_THAT(ports_[0].Take(), IsEmpty()) << "it is not started";
  EXPECT_EQ(sink_->failures[3].message(), "device 1 broke");
  Read(9, 3);
  EXPECT_EQ(sink_->reads[9].status.message(), "device 1 broke");
}

TEST_F(CoreTest, ACompileErrorFailsTheAnswerAndEveryRun) {
  Open();
  wire::ClientMessage message;
  message.mutable_compile()->set_program(1);
  message.mutable_compile()->set_artifact("nonsense");
  message.mutable_compile()->mutable_options()->set_num_replicas(1);
  message.mutable_compile()->mutable_options()->set_num_partitions(1);
  message.mutable_compile()->mutable_options()->add_devices(0);
  ASSERT_TRUE(Send(message).ok());
  core_->ProgramCompiled(tasks_[0], absl::InvalidArgumentError("bad program"));
  EndTurn();
  EXPECT_EQ(sink_->compiled_status[1].message(), "bad program");
  ASSERT_TRUE(Run(1, {}, 5).ok());
  EXPECT_EQ(sink_->failures[1].message(), "bad program");
}

TEST_F(CoreTest, TheCompilerLearnsWhereIslandsEnd) {
  Open();  // devices 0 and 1 are one island, 2 and 3 another
  const topology::LinkPrices prices{{2, 1}, {64, 8}};
  core_->SetLinkPrices(prices);
  const topology::Place a{0, 0}, b{1, 1};
  const std::vector<std::pair<std::vector<int>, std::vector<topology::Place>>> cases = {
      {{0, 1, 2, 3}, {a, a, b, b}},
      {{3, 1, 2, 0}, {a, b, a, b}},  // islands are numbered as they occur
      {{2, 3}, {}},                  // one island: the same program on either
  };
  uint64_t program = 0;
  for (const auto& [devices, places] : cases) {
    wire::ClientMessage message;
    message.mutable_compile()->set_program(++program);
    message.mutable_compile()->set_artifact("code");
    auto& options = *message.mutable_compile()->mutable_options();
    options.set_num_replicas(1);
    options.set_num_partitions(devices.size());
    options.mutable_devices()->Assign(devices.begin(), devices.end());
    ASSERT_TRUE(Send(message).ok());
    ASSERT_EQ(tasks_.size(), program);
    EXPECT_EQ(tasks_.back().request.places, places);
    EXPECT_EQ(tasks_.back().request.link_prices, prices);
  }
}

TEST_F(CoreTest, AWorkersCompileFailureStopsLaterRuns) {
  Open();
  Compile(1);
  ASSERT_TRUE(Put(1).ok());
  EndAll();
  wire::FromWorker loaded;
  loaded.mutable_loaded()->set_program(Global(1));
  wire::ToProto(absl::UnimplementedError("no such operator"),
                loaded.mutable_loaded()->mutable_status());
  core_->WorkerSaid(1, loaded, clock_.Now());
  ASSERT_TRUE(Run(1, {1}, 2).ok());
  EXPECT_EQ(sink_->failures[2].message(), "no such operator");
  EXPECT_THAT(ports_[0].Take(), IsEmpty());
}

// Design decision 7: a budget of two arrays and a long chain, every argument freed when used.
TEST_F(CoreTest, TenThousandStepsInABudgetOfTwoArraysWithAnErrorInTheMiddle) {
  constexpr uint64_t kSteps = 10000;
  constexpr uint64_t kBroken = 5000;
  Open(2 * kArrayBytes);
  Compile(1);
  ASSERT_TRUE(Put(1).ok());
  for (uint64_t i = 1; i <= kSteps; ++i) {
    ASSERT_TRUE(Run(1, {i}, i + 1).ok());
    Free({i});
  }
  Read(7, kSteps + 1);
  // A worker that ends operations in order, and counts arrays that are alive.
  uint64_t runs = 0;
  int live = 0;
  int most = 0;
  std::deque<wire::ToWorker> inbox[2];
  for (;;) {
    for (int host = 0; host < 2; ++host) {
      for (auto& message : ports_[host].Take()) inbox[host].push_back(std::move(message));
    }
    if (inbox[0].empty() && inbox[1].empty()) break;
    for (int host = 0; host < 2; ++host) {
      if (inbox[host].empty()) continue;
      const wire::ToWorker message = std::move(inbox[host].front());
      inbox[host].pop_front();
      if (host == 0) {
        live += message.has_run() || message.has_put();
        live -= message.free().arrays_size();
        most = std::max(most, live);
        runs += message.has_run();
      }
      if (const uint64_t op = OpOf({message})) {
        Done(host, op,
             runs == kBroken && host == 0 ? absl::InternalError("step 5000 broke")
                                          : absl::OkStatus());
      }
    }
  }
  EXPECT_LE(most, 2);
  EXPECT_EQ(runs, kBroken) << "what follows the error is not started";
  EXPECT_EQ(sink_->ended.size() + sink_->failures.size(), kSteps + 1);
  EXPECT_EQ(sink_->failures.size(), kSteps - kBroken + 1);
  EXPECT_EQ(sink_->reads[7].status.message(), "step 5000 broke");
  EXPECT_EQ(core_->live_arrays(session_), 1u);
  EXPECT_EQ(core_->operations_in_flight(), 0u);

  // Room was given back: the same again, with no error.
  Free({kSteps + 1});
  sink_->failures.clear();
  ASSERT_TRUE(Put(20001).ok());
  EndAll();
  ASSERT_TRUE(Run(1, {20001}, 20002).ok());
  EndAll();
  EXPECT_THAT(sink_->failures, IsEmpty());
}

TEST_F(CoreTest, WhatCanNeverFitIsExhausted) {
  Open(kArrayBytes - 1);
  ASSERT_TRUE(Put(1).ok());
  EXPECT_EQ(sink_->failures[1].code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(CoreTest, ARunThatNobodyMakesRoomForIsExhaustedAfterAWhile) {
  Open(2 * kArrayBytes, {.memory_patience = std::chrono::seconds(5)});
  Compile(1);
  ASSERT_TRUE(Put(1).ok());
  ASSERT_TRUE(Put(2).ok());
  EndAll();
  ASSERT_TRUE(Run(1, {1}, 3).ok());
  clock_.Advance(std::chrono::seconds(6));
  core_->Tick(clock_.Now());
  EndTurn();
  EXPECT_EQ(sink_->failures[3].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(sink_->failures[3].message()), HasSubstr("128 of the session's 128"));
}

TEST_F(CoreTest, DonationMakesRoomAndConsumes) {
  Open(kArrayBytes);
  Compile(1, {0, 1, 2, 3}, /*donated=*/true);
  ASSERT_TRUE(Put(1).ok());
  EndAll();
  ASSERT_TRUE(Run(1, {1}, 2).ok());
  EndAll();
  EXPECT_THAT(sink_->ended, ElementsAre(1, 2)) << "the result takes the argument's memory";
  ASSERT_TRUE(Run(1, {1}, 3).ok());
  EXPECT_THAT(std::string(sink_->failures[3].message()),
              HasSubstr("array 1 was deleted or donated"));
}

TEST_F(CoreTest, MemoryStatsAreOfOneDevice) {
  Open(10 * kArrayBytes);
  ASSERT_TRUE(Put(1).ok());
  ASSERT_TRUE(Put(2, {3}).ok());
  EndAll();
  const auto in_use = [&](int device) {
    wire::ClientMessage message;
    const uint64_t request = sink_->memory.size() + 1;
    message.mutable_memory_stats()->set_request(request);
    message.mutable_memory_stats()->set_device(device);
    EXPECT_TRUE(Send(message).ok());
    EXPECT_EQ(sink_->memory[request].bytes_limit, 10 * kArrayBytes);
    return sink_->memory[request].bytes_in_use;
  };
  EXPECT_EQ(in_use(2), kArrayBytes);
  EXPECT_EQ(in_use(3), 2 * kArrayBytes);
  Free({1});
  EXPECT_EQ(in_use(2), 0);
  EXPECT_EQ(in_use(3), kArrayBytes);
}

TEST_F(CoreTest, FreesAndReadsOvertakeQueuedRuns) {
  Open(kPlenty, {.max_in_flight = 1});
  Compile(1);
  ASSERT_TRUE(Put(1).ok());
  ASSERT_TRUE(Run(1, {1}, 2).ok());  // waits for depth
  Free({1});                         // the queued run still needs it
  Read(5, 2);                        // and this waits for the run
  EXPECT_TRUE(ports_[0].sent.size() == 1 && ports_[0].sent[0].has_put());
  EndAll();
  auto messages = ports_[0].Take();
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_TRUE(messages[0].has_run());
  EXPECT_TRUE(messages[1].has_read());
  EXPECT_THAT(messages[2].free().arrays(), ElementsAre(Global(1)));
  wire::FromWorker answer;
  answer.mutable_read_done()->set_request(messages[1].read().request());
  answer.mutable_read_done()->set_data("bytes");
  core_->WorkerSaid(0, answer, clock_.Now());
  EndTurn();
  EXPECT_EQ(sink_->reads[5].data, "bytes");
}

TEST_F(CoreTest, AssembledArraysHoldTheMemoryOfTheirParts) {
  Open(2 * kArrayBytes);
  ASSERT_TRUE(Put(1, {0}).ok());
  ASSERT_TRUE(Put(2, {2}).ok());
  EndAll();
  wire::ClientMessage message;
  auto& assemble = *message.mutable_assemble();
  assemble.set_seq(++seq_);
  assemble.set_array(3);
  assemble.add_arrays(1);
  assemble.add_arrays(2);
  assemble.add_shards(0);
  assemble.add_shards(0);
  ASSERT_TRUE(Send(message).ok());
  EndAll();
  Free({1, 2});
  EXPECT_EQ(core_->live_arrays(session_), 3u) << "ghosts account for the memory";
  ASSERT_TRUE(Put(4, {0}).ok());
  ASSERT_TRUE(Put(5, {0}).ok());
  EXPECT_EQ(ports_[0].Take().size(), 2u) << "put 5 waits: device 0 holds 1 and 4";
  Free({3});
  EXPECT_EQ(core_->live_arrays(session_), 2u);
  EndAll();
  EXPECT_EQ(sink_->ended.size(), 4u) << "put 5 had its turn";
}

TEST_F(CoreTest, ALostHostPoisonsWhatLivedThereAndNothingElse) {
  Open();
  Compile(1);
  Compile(2, {0, 1});
  ASSERT_TRUE(Put(1).ok());
  ASSERT_TRUE(Put(2, {0, 1}).ok());
  EndAll();
  ASSERT_TRUE(Run(1, {1}, 3).ok());
  const uint64_t op = OpOf(ports_[0].Take());
  ports_[1].Take();
  core_->WorkerLost(1, absl::UnavailableError("killed by signal 9"), clock_.Now());
  EndTurn();
  ASSERT_TRUE(ports_[0].sent.size() == 1 && ports_[0].sent[0].has_host_lost());
  Done(0, op, absl::UnavailableError("host 1 left the collective"));
  EXPECT_EQ(sink_->failures[3].code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(sink_->failures[3].message()),
              HasSubstr("host 0 of island 1 (devices 2-3) is lost (killed by signal 9)"));
  Read(8, 1);
  EXPECT_EQ(sink_->reads[8].status.code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(Put(9, {2}).ok());
  EXPECT_TRUE(sink_->failures.contains(4));
  ports_[0].Take();
  ASSERT_TRUE(Run(2, {2}, 10).ok());
  EndAll();
  EXPECT_THAT(sink_->ended, UnorderedElementsAre(1, 2, 5)) << "host 0 goes on";
}

TEST_F(CoreTest, ABrokenPortIsALostHost) {
  Open();
  ports_[1].broken = absl::UnavailableError("gone");
  ASSERT_TRUE(Put(1).ok());
  EndAll();
  EXPECT_EQ(sink_->failures[1].code(), absl::StatusCode::kUnavailable);
}

TEST_F(CoreTest, AClosedSessionLeavesNothing) {
  Open(kPlenty, {.max_in_flight = 1});
  Compile(1);
  ASSERT_TRUE(Put(1).ok());
  const uint64_t op = OpOf(ports_[0].Take());
  ASSERT_TRUE(Run(1, {1}, 2).ok());  // queued
  Read(3, 2);
  core_->CloseSession(session_);
  EndTurn();
  ASSERT_EQ(ports_[0].sent.size(), 1u);
  EXPECT_EQ(ports_[0].sent[0].session_close().session(), session_.value);
  Done(0, op);
  Done(1, op);
  EXPECT_EQ(core_->operations_in_flight(), 0u);
  EXPECT_EQ(ports_[0].Take().size(), 1u) << "the queued run was dropped";
  wire::ClientMessage late;
  late.mutable_free()->add_arrays(1);
  EXPECT_FALSE(core_->Handle(session_, late, clock_.Now(), &tasks_).ok());
}

TEST_F(CoreTest, CallbacksGoToTheClientAndBackToTheRightWorker) {
  Open();
  wire::FromWorker call;
  call.mutable_callback()->set_call(77);
  call.mutable_callback()->set_session(session_.value);
  call.mutable_callback()->set_callback(5);
  call.mutable_callback()->set_device(3);
  call.mutable_callback()->add_operands("x");
  core_->WorkerSaid(1, call, clock_.Now());
  EndTurn();
  ASSERT_EQ(sink_->callbacks.size(), 1u);
  wire::ClientMessage answer;
  answer.mutable_callback_return()->set_call(sink_->callbacks[0].call);
  answer.mutable_callback_return()->add_results("y");
  ASSERT_TRUE(Send(answer).ok());
  EXPECT_THAT(ports_[0].Take(), IsEmpty());
  const auto replies = ports_[1].Take();
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].callback_return().call(), 77u);
  EXPECT_THAT(replies[0].callback_return().results(), ElementsAre("y"));
}

TEST_F(CoreTest, ABrokenClientIsToldSo) {
  Open();
  EXPECT_FALSE(Run(99, {}, 1).ok());
  ASSERT_TRUE(Put(1).ok());
  EXPECT_FALSE(Put(1).ok());
}

TEST_F(CoreTest, MistakesOfAProgramAreErrorsOfItsResults) {
  Open();
  Compile(1);
  ASSERT_TRUE(Put(1, {0, 1, 2}).ok());
  ASSERT_TRUE(Run(1, {1}, 2).ok());
  ASSERT_TRUE(Run(1, {42}, 3).ok());
  ASSERT_TRUE(Run(1, {}, 4).ok());
  EXPECT_THAT(std::string(sink_->failures[2].message()), HasSubstr("argument 0 is f32[16]"));
  EXPECT_THAT(std::string(sink_->failures[3].message()), HasSubstr("array 42"));
  EXPECT_THAT(std::string(sink_->failures[4].message()), HasSubstr("called with 0 arguments"));
  Read(1, 1, /*shard=*/3);
  EXPECT_THAT(std::string(sink_->reads[1].status.message()), HasSubstr("no shard 3"));
}

}  // namespace
}  // namespace shardway::controller
