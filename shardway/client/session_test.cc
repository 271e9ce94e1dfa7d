// The session against a controller that is played by the test, message by message.
#include "shardway/client/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>

#include "shardway/wire/arena.h"
#include "shardway/wire/channel.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/session.pb.h"
#include "shardway/wire/socket.h"
#include "shardway/wire/validate.h"

namespace shardway::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kArena = 1 << 20;
constexpr uint32_t kF32 = static_cast<uint32_t>(ElementType::kF32);

class Outcome {
 public:
  Session::DoneCallback Callback() {
    return [this](const absl::Status& status) {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++calls_;
      status_ = status;
      changed_.notify_all();
    };
  }
  absl::Status Await() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, seconds(20), [this] { return calls_ > 0; })) {
      return absl::DeadlineExceededError("the callback did not come");
    }
    return status_;
  }
  int calls() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return calls_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int calls_ = 0;
  absl::Status status_;
};

class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override { Connect({}); }

  void Connect(Session::Options options) {
    session_.reset();
    channel_.reset();
    auto sockets = wire::SocketPair();
    ASSERT_TRUE(sockets.ok());
    std::thread controller([&] {
      auto channel = wire::MakeSharedMemoryChannel(std::move(sockets->second));
      ASSERT_TRUE(channel.ok()) << channel.status();
      channel_ = *std::move(channel);
      wire::ClientMessage hello = Next();
      EXPECT_EQ(hello.hello().protocol(), wire::kSessionProtocol);
      auto arena = wire::CreateArena(kArena);
      ASSERT_TRUE(arena.ok());
      wire::ServerMessage message;
      wire::Welcome* welcome = message.mutable_welcome();
      welcome->set_protocol(wire::kSessionProtocol);
      welcome->set_platform("cpu");
      welcome->set_arena_bytes(kArena);
      for (int i = 0; i < 4; ++i) {
        auto* device = welcome->add_devices();
        device->set_id(i);
        device->set_island(i / 2);
        device->set_local(i % 2);
      }
      ASSERT_TRUE(channel_->Send(message, arena->get()).ok());
      auto view = wire::ArenaView::Map(*std::move(arena), kArena);
      ASSERT_TRUE(view.ok());
      arena_ = *std::move(view);
    });
    const std::string address = "fd:" + std::to_string(sockets->first.Release());
    auto session = Session::Connect(address, options);
    controller.join();
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  // The next message that is no ping (pings are answered).
  wire::ClientMessage Next() {
    while (true) {
      wire::ClientMessage message;
      const absl::Status status = channel_->Receive(&message, seconds(20));
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) return message;
      if (message.kind_case() != wire::ClientMessage::kPing) {
        const absl::Status valid = wire::Validate(message, {4, kArena});
        EXPECT_TRUE(valid.ok()) << valid;
        return message;
      }
      wire::ServerMessage pong;
      pong.set_pong(message.ping());
      EXPECT_TRUE(channel_->Send(pong).ok());
    }
  }

  void SendDone(uint64_t seq, const absl::Status& status = absl::OkStatus()) {
    wire::ServerMessage message;
    wire::Done* done = message.mutable_done();
    if (status.ok()) {
      done->add_seqs(seq);
    } else {
      auto* failure = done->add_failures();
      failure->set_seq(seq);
      wire::ToProto(status, failure->mutable_status());
    }
    ASSERT_TRUE(channel_->Send(message).ok());
  }

  std::unique_ptr<wire::Channel> channel_;  // the controller's end
  std::unique_ptr<wire::ArenaView> arena_;
  std::unique_ptr<Session> session_;
};

TEST_F(SessionTest, DevicesAndPlatform) {
  EXPECT_EQ(session_->platform(), "cpu");
  ASSERT_EQ(session_->devices().size(), 4u);
  EXPECT_EQ(session_->devices()[3].island, 1);
  EXPECT_EQ(session_->devices()[3].local, 1);
}

TEST_F(SessionTest, RunNamesItsResultsAndDoneMakesThemReady) {
  const ArrayId arguments[] = {{100}, {101}};
  const uint32_t keep[] = {1};
  Outcome done, ready;
  const ArrayId first = session_->Run({7}, arguments, 3, keep, done.Callback());
  const wire::ClientMessage message = Next();
  EXPECT_EQ(message.run().program(), 7u);
  EXPECT_THAT(message.run().arguments(), ElementsAre(100, 101));
  EXPECT_THAT(message.run().results(), ElementsAre(first.value, first.value + 1, first.value + 2));
  EXPECT_THAT(message.run().keep(), ElementsAre(1));
  EXPECT_FALSE(session_->IsReady({first.value + 2}));
  session_->OnReady({first.value + 2}, ready.Callback());
  SendDone(message.run().seq());
  EXPECT_TRUE(done.Await().ok());
  EXPECT_TRUE(ready.Await().ok());
  EXPECT_TRUE(session_->IsReady(first));
}

TEST_F(SessionTest, AFailedRunPoisonsItsResults) {
  const ArrayId first = session_->Run({7}, {}, 2, {}, nullptr);
  SendDone(Next().run().seq(), absl::InvalidArgumentError("bad program"));
  Outcome outcome;
  session_->OnReady({first.value + 1}, outcome.Callback());
  EXPECT_EQ(outcome.Await(), absl::InvalidArgumentError("bad program"));
}

TEST_F(SessionTest, SmallPutsTravelInTheirMessageAndReplicasOnce) {
  const float left[] = {1, 2};
  const float right[] = {3, 4};
  auto array = session_->Put({ElementType::kF32, {2}, {0, 1, 2, 3}},
                             std::vector<HostShard>{{left}, {right}, {left}, {right}});
  ASSERT_TRUE(array.ok()) << array.status();
  const wire::ClientMessage message = Next();
  EXPECT_EQ(message.put().array(), array->value);
  EXPECT_EQ(message.put().element(), kF32);
  EXPECT_EQ(message.put().inline_data().size(), 16u);
  EXPECT_THAT(message.put().inline_shard(), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(message.put().devices(), ElementsAre(0, 1, 2, 3));
}

TEST_F(SessionTest, LargePutsTravelThroughTheArenaWithStrides) {
  constexpr int kSize = 64;
  std::vector<float> columns(kSize * kSize);
  std::iota(columns.begin(), columns.end(), 0.0f);
  const HostShard transposed = {columns.data(), {4, 4 * kSize}};
  auto array = session_->Put({ElementType::kF32, {kSize, kSize}, {0, 1}},
                             std::vector<HostShard>{{columns.data()}, transposed});
  ASSERT_TRUE(array.ok());
  const wire::ClientMessage message = Next();
  ASSERT_EQ(message.put().offsets_size(), 2);
  const auto* plain = reinterpret_cast<const float*>(
      arena_->Block(message.put().offsets(0), columns.size() * 4)->data());
  const auto* turned = reinterpret_cast<const float*>(
      arena_->Block(message.put().offsets(1), columns.size() * 4)->data());
  EXPECT_EQ(plain[kSize + 3], columns[kSize + 3]);
  EXPECT_EQ(turned[3 * kSize + 1], columns[kSize + 3]);
}

TEST_F(SessionTest, APutWaitsForArenaRoomThatEarlierOnesGiveBack) {
  const std::vector<char> bytes(kArena / 2 + 64, 'x');
  const ArraySpec spec = {ElementType::kUI8, {static_cast<int64_t>(bytes.size())}, {0}};
  ASSERT_TRUE(session_->Put(spec, std::vector<HostShard>{{bytes.data()}}).ok());
  std::atomic<bool> returned{false};
  std::thread second([&] {
    EXPECT_TRUE(session_->Put(spec, std::vector<HostShard>{{bytes.data()}}).ok());
    returned = true;
  });
  const uint64_t seq = Next().put().seq();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(returned.load());
  SendDone(seq);
  second.join();
}

TEST_F(SessionTest, AnArenaThatStaysFullIsAnError) {
  Connect({.liveness = milliseconds(200)});
  std::atomic<bool> stop{false};
  const std::vector<char> bytes(kArena / 2 + 64, 'x');
  const ArraySpec spec = {ElementType::kUI8, {static_cast<int64_t>(bytes.size())}, {0}};
  std::thread controller([&] {  // alive, but slow with puts
    wire::ClientMessage message;
    while (!stop) {
      if (!channel_->Receive(&message, milliseconds(10)).ok()) continue;
      wire::ServerMessage pong;
      pong.set_pong(message.ping());
      ASSERT_TRUE(channel_->Send(pong).ok());
    }
  });
  EXPECT_TRUE(session_->Put(spec, std::vector<HostShard>{{bytes.data()}}).ok());
  EXPECT_EQ(session_->Put(spec, std::vector<HostShard>{{bytes.data()}}).status().code(),
            absl::StatusCode::kResourceExhausted);
  const ArraySpec huge = {ElementType::kUI8, {int64_t{kArena} + 1}, {0}};
  EXPECT_EQ(session_->Put(huge, std::vector<HostShard>{{bytes.data()}}).status().code(),
            absl::StatusCode::kResourceExhausted);
  stop = true;
  controller.join();
}

TEST_F(SessionTest, BadPutsAreRefusedHere) {
  const float data[] = {1};
  const std::vector<HostShard> one = {{data}};
  EXPECT_FALSE(session_->Put({ElementType::kF32, {1}, {0, 1}}, one).ok());
  EXPECT_FALSE(session_->Put({ElementType::kF32, {1}, {4}}, one).ok());
  EXPECT_FALSE(session_->Put({ElementType::kF32, {-1}, {0}}, one).ok());
  EXPECT_FALSE(session_->Put({ElementType::kInvalid, {1}, {0}}, one).ok());
  EXPECT_FALSE(session_->Put({ElementType::kF32, {}, {}}, {}).ok());
}

TEST_F(SessionTest, SmallReadsAreAnsweredInline) {
  float result[2] = {};
  Outcome outcome;
  session_->Read({5}, 1, result, sizeof(result), outcome.Callback());
  const wire::ClientMessage message = Next();
  EXPECT_EQ(message.read().array(), 5u);
  EXPECT_EQ(message.read().shard(), 1u);
  EXPECT_EQ(message.read().size(), 0u);
  const float data[] = {8, 9};
  wire::ServerMessage answer;
  answer.mutable_read_done()->set_request(message.read().request());
  answer.mutable_read_done()->set_data(data, sizeof(data));
  ASSERT_TRUE(channel_->Send(answer).ok());
  EXPECT_TRUE(outcome.Await().ok());
  EXPECT_EQ(result[1], 9);

  Outcome wrong;  // an answer of another size touches nothing
  session_->Read({5}, 1, result, 4, wrong.Callback());
  answer.mutable_read_done()->set_request(Next().read().request());
  ASSERT_TRUE(channel_->Send(answer).ok());
  EXPECT_EQ(wrong.Await().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SessionTest, LargeReadsShareTheArenaAndFreesWaitForThem) {
  constexpr size_t kSize = kArena / 2 + 64;
  std::vector<char> first(kSize), second(kSize);
  Outcome first_done, second_done;
  session_->Read({5}, 0, first.data(), kSize, first_done.Callback());
  session_->Read({6}, 0, second.data(), kSize, second_done.Callback());  // no room yet
  const ArrayId victim = session_->Run({1}, {}, 1, {}, nullptr);
  session_->Free(victim);
  auto answer_read = [&](const wire::ClientMessage& message, char fill) {
    ASSERT_EQ(message.kind_case(), wire::ClientMessage::kRead);
    auto block = arena_->Block(message.read().offset(), message.read().size());
    ASSERT_TRUE(block.ok());
    std::memset(block->data(), fill, block->size());
    wire::ServerMessage answer;
    answer.mutable_read_done()->set_request(message.read().request());
    ASSERT_TRUE(channel_->Send(answer).ok());
  };
  const wire::ClientMessage read = Next();
  EXPECT_EQ(Next().kind_case(), wire::ClientMessage::kRun);
  answer_read(read, 'a');
  EXPECT_TRUE(first_done.Await().ok());
  EXPECT_EQ(first.back(), 'a');
  answer_read(Next(), 'b');
  EXPECT_TRUE(second_done.Await().ok());
  EXPECT_EQ(second.front(), 'b');
  EXPECT_THAT(Next().free().arrays(), ElementsAre(victim.value));
}

TEST_F(SessionTest, FreesTravelWithTheNextMessageOrSoonAlone) {
  const ArrayId first = session_->Run({7}, {}, 2, {}, nullptr);
  EXPECT_EQ(Next().kind_case(), wire::ClientMessage::kRun);
  session_->Free(first);
  session_->Free(first);  // once is enough
  session_->FreeProgram({7});
  session_->Free({12345});
  std::vector<uint64_t> arrays, programs;
  while (arrays.empty() || programs.empty()) {
    const wire::ClientMessage message = Next();
    ASSERT_EQ(message.kind_case(), wire::ClientMessage::kFree);
    arrays.insert(arrays.end(), message.free().arrays().begin(), message.free().arrays().end());
    programs.insert(programs.end(), message.free().programs().begin(),
                    message.free().programs().end());
  }
  EXPECT_THAT(arrays, ElementsAre(first.value));
  EXPECT_THAT(programs, ElementsAre(7));
}

TEST_F(SessionTest, CompileWaitsForItsAnswer) {
  absl::StatusOr<Program> program = absl::UnknownError("");
  std::thread caller([&] {
    program = session_->Compile("artifact", {.num_partitions = 2, .devices = {1, 0}});
  });
  const wire::ClientMessage message = Next();
  EXPECT_EQ(message.compile().artifact(), "artifact");
  EXPECT_THAT(message.compile().options().devices(), ElementsAre(1, 0));
  wire::ServerMessage answer;
  wire::Compiled* compiled = answer.mutable_compiled();
  compiled->set_program(message.compile().program());
  compiled->set_name("jit_f");
  auto* result = compiled->add_results();
  result->set_element(kF32);
  result->add_local_dims(4);
  result->set_alias_result(-1);
  ASSERT_TRUE(channel_->Send(answer).ok());
  caller.join();
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->name, "jit_f");
  EXPECT_THAT(program->devices, ElementsAre(1, 0));
  ASSERT_EQ(program->results.size(), 1u);
  EXPECT_THAT(program->results[0].local_dims, ElementsAre(4));
}

TEST_F(SessionTest, MemoryStatsWaitForTheirAnswerAndTakeFreesAlong) {
  const float value = 1;
  const auto array = session_->Put({ElementType::kF32, {}, {0}}, {{&value, {}}});
  ASSERT_TRUE(array.ok());
  SendDone(Next().put().seq());
  absl::StatusOr<Session::MemoryStats> stats;
  std::thread asker([&] {
    session_->Free(*array);
    stats = session_->DeviceMemory(3);
  });
  EXPECT_THAT(Next().free().arrays(), ElementsAre(array->value));
  const wire::ClientMessage question = Next();
  EXPECT_EQ(question.memory_stats().device(), 3);
  wire::ServerMessage answer;
  answer.mutable_memory_stats()->set_request(question.memory_stats().request());
  answer.mutable_memory_stats()->set_bytes_in_use(5);
  answer.mutable_memory_stats()->set_bytes_limit(7);
  ASSERT_TRUE(channel_->Send(answer).ok());
  asker.join();
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->bytes_in_use, 5);
  EXPECT_EQ(stats->bytes_limit, 7);

  asker = std::thread([&] { stats = session_->DeviceMemory(0); });
  Next();
  channel_->Close();
  asker.join();
  EXPECT_EQ(stats.status().code(), absl::StatusCode::kUnavailable) << stats.status();
}

TEST_F(SessionTest, CallbacksAreAnswered) {
  auto call = [&](uint64_t number) {
    wire::ServerMessage message;
    message.mutable_callback()->set_call(number);
    message.mutable_callback()->set_callback(42);
    message.mutable_callback()->add_operands("abc");
    ASSERT_TRUE(channel_->Send(message).ok());
  };
  call(1);
  EXPECT_EQ(Next().callback_return().status().code(),
            static_cast<int>(absl::StatusCode::kFailedPrecondition));
  std::atomic<int> inside{0};
  session_->SetCallbackHandler(
      [&](uint64_t callback, int,
          absl::Span<const std::string> operands) -> absl::StatusOr<std::vector<std::string>> {
        EXPECT_EQ(callback, 42u);
        ++inside;
        while (inside < 2) std::this_thread::sleep_for(milliseconds(1));  // two at a time
        return std::vector<std::string>{operands[0] + "!"};
      });
  call(2);
  call(3);
  const wire::ClientMessage first = Next();
  const wire::ClientMessage second = Next();
  EXPECT_EQ(first.callback_return().call() + second.callback_return().call(), 5u);
  EXPECT_THAT(first.callback_return().results(), ElementsAre("abc!"));
}

TEST_F(SessionTest, EverythingFailsWhenTheControllerGoes) {
  Outcome run, ready, read;
  char byte;
  const ArrayId array = session_->Run({7}, {}, 1, {}, run.Callback());
  session_->OnReady(array, ready.Callback());
  session_->Read(array, 0, &byte, 1, read.Callback());
  std::thread compile([&] {
    EXPECT_EQ(session_->Compile("x", {.devices = {0}}).status().code(),
              absl::StatusCode::kUnavailable);
  });
  for (int i = 0; i < 3; ++i) Next();
  channel_.reset();
  compile.join();
  for (Outcome* outcome : {&run, &ready, &read}) {
    const absl::Status status = outcome->Await();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("controller"));
    EXPECT_EQ(outcome->calls(), 1);
  }
  Outcome later, later_read;
  const ArrayId dead = session_->Run({7}, {}, 1, {}, later.Callback());
  EXPECT_EQ(later.Await().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(session_->IsReady(dead));
  session_->Read(dead, 0, &byte, 1, later_read.Callback());
  EXPECT_EQ(later_read.Await().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(session_->Compile("x", {.devices = {0}}).ok());
}

TEST_F(SessionTest, AGoodbyeIsTheCause) {
  Outcome run;
  session_->Run({7}, {}, 1, {}, run.Callback());
  wire::ServerMessage goodbye;
  wire::ToProto(absl::ResourceExhaustedError("over budget"), goodbye.mutable_goodbye());
  ASSERT_TRUE(channel_->Send(goodbye).ok());
  const absl::Status status = run.Await();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("over budget"));
}

TEST_F(SessionTest, ANonsensicalMessageEndsTheSession) {
  Outcome run;
  session_->Run({7}, {}, 1, {}, run.Callback());
  ASSERT_TRUE(channel_->SendBytes("\x07\x07\x07").ok());
  EXPECT_EQ(run.Await().code(), absl::StatusCode::kUnavailable);
}

TEST_F(SessionTest, ASilentControllerIsLost) {
  Connect({.liveness = milliseconds(100)});
  Outcome run;
  session_->Run({7}, {}, 1, {}, run.Callback());
  const absl::Status status = run.Await();  // nobody answers the pings
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has not answered for 100 ms"));
}

// Senders would wait half a minute for room in the channel.
TEST_F(SessionTest, ASilentControllerIsLostWhileASenderWaitsForRoom) {
  Connect({.liveness = seconds(1)});
  const auto begun = std::chrono::steady_clock::now();
  const std::vector<ArrayId> arguments(500, ArrayId{1});
  Outcome last;
  for (int i = 0; i < 3000; ++i) {  // 1.5 MB and more through a ring of one
    session_->Run({7}, arguments, 1, {}, i == 2999 ? last.Callback() : Session::DoneCallback());
  }
  EXPECT_EQ(last.Await().code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(15));
}

TEST_F(SessionTest, ClosingTheSessionCallsWhoWaits) {
  Outcome run;
  session_->Run({7}, {}, 1, {}, run.Callback());
  session_.reset();
  EXPECT_EQ(run.calls(), 1);
  EXPECT_EQ(run.Await().code(), absl::StatusCode::kUnavailable);
}

TEST_F(SessionTest, AForkedChildLeavesTheSessionAlone) {
  const ArrayId array = session_->Run({7}, {}, 1, {}, nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    const float data[] = {1};
    const bool refused =
        !session_->Put({ElementType::kF32, {1}, {0}}, std::vector<HostShard>{{data}}).ok() &&
        !session_->Compile("x", {}).ok();
    session_->Free(array);
    session_.reset();
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  SendDone(Next().run().seq());
  Outcome outcome;
  session_->OnReady(array, outcome.Callback());
  EXPECT_TRUE(outcome.Await().ok());
}

}  // namespace
}  // namespace shardway::client
