// The controller with its threads, over real channels to fake workers.
#include "shardway/controller/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/controller/fake_worker.h"

namespace shardway::controller {
namespace {

using ::testing::HasSubstr;

constexpr Duration kDeadline = std::chrono::seconds(60);

// Counts what a session is told.
class CountingSink : public SessionSink {
 public:
  void Deliver(SessionEvents events) override {
    MutexLock lock(mutex_);
    ended_ += events.ended.size();
    for (auto& failure : events.failures) {
      ++failed_;
      last_failure_ = failure.status;
    }
    compiled_ += events.compiled.size();
    reads_ += events.reads.size();
    changed_.NotifyAll();
  }
  // Until `operations` have ended, well or not.
  bool AwaitOperations(size_t operations) {
    return Await([&] { return ended_ + failed_ >= operations; });
  }
  bool AwaitCompiled() {
    return Await([&] { return compiled_ > 0; });
  }
  bool AwaitReads(size_t reads) {
    return Await([&] { return reads_ >= reads; });
  }
  size_t ended() {
    MutexLock lock(mutex_);
    return ended_;
  }
  size_t failed() {
    MutexLock lock(mutex_);
    return failed_;
  }
  absl::Status last_failure() {
    MutexLock lock(mutex_);
    return last_failure_;
  }

 private:
  template <typename Condition>
  bool Await(Condition condition) {
    const TimePoint deadline = Clock::Real()->Now() + kDeadline;
    MutexLock lock(mutex_);
    while (!condition()) {
      const Duration left = deadline - Clock::Real()->Now();
      if (left <= Duration(0)) return false;
      changed_.WaitFor(mutex_, left);
    }
    return true;
  }

  Mutex mutex_;
  CondVar changed_;
  size_t ended_ = 0;
  size_t failed_ = 0;
  size_t compiled_ = 0;
  size_t reads_ = 0;
  absl::Status last_failure_;
};

// f32[16] on all devices to the same.
absl::StatusOr<compile::Partitioned> Identity(const compile::Request& request) {
  compile::Partitioned program;
  program.name = "jit_f";
  program.num_partitions = request.num_partitions;
  program.parameters = {{.element = ElementType::kF32, .global_dims = {16}, .local_dims = {16}}};
  program.results = program.parameters;
  return program;
}

class ControllerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ControllerOptions options;
    options.shape = {.islands = 2, .hosts = 1, .devices = 2};
    options.arena_bytes = 1 << 20;
    options.compile = Identity;
    for (int host = 0; host < 2; ++host) {
      auto ends = wire::MakeChannelPair();
      ASSERT_TRUE(ends.ok()) << ends.status();
      options.workers.push_back(std::move(ends->first));
      workers_.push_back(std::make_unique<FakeWorker>(std::move(ends->second)));
    }
    auto controller = Controller::Start(std::move(options));
    ASSERT_TRUE(controller.ok()) << controller.status();
    controller_ = *std::move(controller);
  }

  // One client: a session and its ids.
  struct Client {
    Controller* controller;
    SessionId id;
    std::shared_ptr<CountingSink> sink = std::make_shared<CountingSink>();
    uint64_t seq = 0;
    std::vector<wire::ClientMessage> batch;

    void Put(uint64_t array) {
      wire::PutArray& put = *batch.emplace_back().mutable_put();
      put.set_seq(++seq);
      put.set_array(array);
      put.set_element(static_cast<uint32_t>(ElementType::kF32));
      put.add_shard_dims(16);
      for (int device = 0; device < 4; ++device) {
        put.add_devices(device);
        put.add_offsets(0);
      }
    }
    // A kilobyte per shard, in the message.
    void PutInline(uint64_t array, std::vector<int> devices) {
      wire::PutArray& put = *batch.emplace_back().mutable_put();
      put.set_seq(++seq);
      put.set_array(array);
      put.set_element(static_cast<uint32_t>(ElementType::kF32));
      put.add_shard_dims(256);
      put.set_inline_data(std::string(1024, '\0'));
      for (int device : devices) {
        put.add_devices(device);
        put.add_inline_shard(0);
      }
    }
    void Compile() {
      wire::Compile& compile = *batch.emplace_back().mutable_compile();
      compile.set_program(1);
      compile.set_artifact("code");
      compile.mutable_options()->set_num_replicas(1);
      compile.mutable_options()->set_num_partitions(4);
      for (int device = 0; device < 4; ++device) compile.mutable_options()->add_devices(device);
    }
    void Run(uint64_t argument, uint64_t result) {
      wire::Run& run = *batch.emplace_back().mutable_run();
      run.set_seq(++seq);
      run.set_program(1);
      run.add_arguments(argument);
      run.add_results(result);
    }
    void Free(uint64_t array) { batch.emplace_back().mutable_free()->add_arrays(array); }
    void Read(uint64_t request, uint64_t array) {
      batch.emplace_back().mutable_read()->set_request(request);
      batch.back().mutable_read()->set_array(array);
    }
    absl::Status Flush() {
      absl::Status status = controller->Handle(id, absl::MakeSpan(batch));
      batch.clear();
      return status;
    }
  };
  Client Open(int64_t budget = 0) {
    Client client;
    client.controller = controller_.get();
    auto opened = controller_->OpenSession("test", client.sink, budget);
    EXPECT_TRUE(opened.ok()) << opened.status();
    EXPECT_GE(opened->arena.get(), 0);
    client.id = opened->id;
    client.Compile();
    client.Put(1);
    EXPECT_TRUE(client.Flush().ok());
    EXPECT_TRUE(client.sink->AwaitCompiled());
    return client;
  }

  std::vector<std::unique_ptr<FakeWorker>> workers_;  // outlive the controller
  std::unique_ptr<Controller> controller_;
};

TEST_F(ControllerTest, SeveralClientsRunLongChainsInSmallBudgets) {
  constexpr int kClients = 3;
  constexpr uint64_t kSteps = 2000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&] {
      Client client = Open(/*budget=*/2 * 64);
      for (uint64_t step = 1; step <= kSteps; ++step) {
        client.Run(step, step + 1);
        client.Free(step);
        if (step % 16 == 0) {
          EXPECT_TRUE(client.Flush().ok());
        }
      }
      client.Read(1, kSteps + 1);
      EXPECT_TRUE(client.Flush().ok());
      EXPECT_TRUE(client.sink->AwaitOperations(kSteps + 1));
      EXPECT_TRUE(client.sink->AwaitReads(1));
      EXPECT_EQ(client.sink->ended(), kSteps + 1);
      controller_->CloseSession(client.id);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(workers_[0]->runs(), kClients * int64_t{kSteps});
  EXPECT_EQ(workers_[1]->runs(), kClients * int64_t{kSteps});
}

TEST_F(ControllerTest, AFailureInTheMiddleReachesAllThatFollows) {
  Client client = Open();
  workers_[1]->FailRuns(absl::InternalError("a device broke"));
  for (uint64_t step = 1; step <= 100; ++step) client.Run(step, step + 1);
  ASSERT_TRUE(client.Flush().ok());
  ASSERT_TRUE(client.sink->AwaitOperations(101));
  EXPECT_EQ(client.sink->failed(), 100u);
  EXPECT_EQ(client.sink->last_failure().message(), "a device broke");
  controller_->CloseSession(client.id);
}

TEST_F(ControllerTest, ALostWorkerFailsWhatIsThereAndTheClientHears) {
  Client client = Open();
  workers_[1]->Die();
  for (uint64_t step = 1;; ++step) {
    client.Run(1, step + 1);
    ASSERT_TRUE(client.Flush().ok());
    ASSERT_TRUE(client.sink->AwaitOperations(step + 1));
    if (client.sink->failed() > 0) break;
  }
  EXPECT_TRUE(absl::IsUnavailable(client.sink->last_failure()));
  EXPECT_THAT(std::string(client.sink->last_failure().message()),
              HasSubstr("host 0 of island 1 (devices 2-3) is lost"));
  controller_->CloseSession(client.id);
}

// More is sent to it than its channel holds; nobody else waits for that, the cluster's end neither.
TEST_F(ControllerTest, AFrozenWorkerDelaysNobodyElse) {
  constexpr uint64_t kPuts = 2000;  // 2 MB through a ring of one
  Client client = Open(), other = Open();
  for (const Client& one : {client, other}) ASSERT_TRUE(one.sink->AwaitOperations(1));
  workers_[1]->Freeze(true);
  for (uint64_t i = 0; i < kPuts; ++i) client.PutInline(100 + i, {2, 3});
  ASSERT_TRUE(client.Flush().ok());
  for (uint64_t i = 0; i < 100; ++i) {
    other.PutInline(100 + i, {0, 1});
    ASSERT_TRUE(other.Flush().ok());
    ASSERT_TRUE(other.sink->AwaitOperations(i + 2));
  }
  EXPECT_EQ(client.sink->ended(), 1u);
  workers_[1]->Freeze(false);
  EXPECT_TRUE(client.sink->AwaitOperations(1 + kPuts));
  EXPECT_EQ(client.sink->failed(), 0u);

  workers_[1]->Freeze(true);
  for (uint64_t i = 0; i < kPuts; ++i) client.PutInline(10000 + i, {2, 3});
  ASSERT_TRUE(client.Flush().ok());
  for (const Client& one : {client, other}) controller_->CloseSession(one.id);
  const TimePoint begun = Clock::Real()->Now();
  controller_.reset();
  EXPECT_LT(Clock::Real()->Now() - begun, std::chrono::seconds(15)) << "sends give up after 30 s";
}

TEST_F(ControllerTest, AClientThatLeavesInTheMiddleFreesAll) {
  Client client = Open(/*budget=*/2 * 64);
  for (uint64_t step = 1; step <= 500; ++step) {
    client.Run(step, step + 1);
    client.Free(step);
  }
  ASSERT_TRUE(client.Flush().ok());
  controller_->CloseSession(client.id);
  client.Free(501);
  EXPECT_TRUE(absl::IsUnavailable(client.Flush()));
  const TimePoint deadline = Clock::Real()->Now() + kDeadline;
  while (!workers_[0]->saw_session_close() && Clock::Real()->Now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(workers_[0]->saw_session_close());
  Client next = Open();  // the others go on
  next.Run(1, 2);
  ASSERT_TRUE(next.Flush().ok());
  EXPECT_TRUE(next.sink->AwaitOperations(2));
  controller_->CloseSession(next.id);
}

TEST(ControllerStartTest, AWorkerThatCannotStartSaysWhy) {
  ControllerOptions options;
  options.shape = {.devices = 1};
  options.compile = Identity;
  auto ends = wire::MakeChannelPair();
  ASSERT_TRUE(ends.ok());
  options.workers.push_back(std::move(ends->first));
  FakeWorker worker(std::move(ends->second), absl::NotFoundError("no such plugin"));
  const absl::Status status = Controller::Start(std::move(options)).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no such plugin"));
}

}  // namespace
}  // namespace shardway::controller
