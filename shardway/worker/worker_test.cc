// The worker with fake devices, driven over a channel. Clean under ThreadSanitizer.
#include "shardway/worker/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/device/fake_device.h"
#include "shardway/wire/arena.h"
#include "shardway/worker/fake_communicator.h"
#include "shardway/worker/worker_harness.h"

namespace shardway::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

collective::Spec Barrier(int devices) {
  collective::Spec spec;
  spec.kind = collective::Kind::kAllReduce;
  spec.reduction = collective::Reduction::kSum;
  spec.operands = spec.results = {{ElementType::kF32, {}}};
  spec.groups.mesh = {devices};
  spec.groups.axes = {0};
  return spec;
}

// A host of fake devices.
struct FakeHost {
  explicit FakeHost(int host = 0, int num_hosts = 1, int devices = 2,
                    std::shared_ptr<FakeNetwork> network = std::make_shared<FakeNetwork>())
      : harness(
            [=, this](const wire::Configure& configure,
                      wire::UniqueFd) -> absl::StatusOr<Worker::Parts> {
              Worker::Parts parts;
              auto topology = HostTopology::FromMessage(configure);
              if (!topology.ok()) return topology.status();
              parts.topology = *std::move(topology);
              auto made = std::make_unique<FakeCommunicator>(network);
              comm = made.get();
              parts.comm = std::move(made);
              auto client = std::make_unique<device::FakeClient>(
                  devices, [this](int, int32_t launch) { return comm->Meet(launch); });
              fake = client.get();
              parts.devices = std::move(client);
              parts.wait_timeout = std::chrono::seconds(20);
              return parts;
            },
            WorkerHarness::Host(host, num_hosts, devices)) {
    EXPECT_TRUE(harness.ready().ok()) << harness.ready();
    harness.OpenSession();
  }

  // Waits until every buffer but `count` is freed: the last holder is a thread that is just ending.
  bool BuffersFallTo(int count) {
    for (int i = 0; i < 5000 && fake->live_buffers() != count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return fake->live_buffers() == count;
  }

  FakeCommunicator* comm = nullptr;
  device::FakeClient* fake = nullptr;
  WorkerHarness harness;
};

std::vector<float> ValueOf(absl::StatusOr<std::vector<float>> read) {
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? *read : std::vector<float>();
}

TEST(WorkerTest, RunsAProgramOnEveryDevice) {
  FakeHost host;
  host.harness.Load(1, {"add 10\nresult 0", {0, 1}});
  host.harness.Put(100, 1, {0, 1}, {{1, 2}, {3, 4}});
  host.harness.RunProgram(200, 1, {1}, {2});
  EXPECT_THAT(ValueOf(host.harness.Read(2, 0)), ElementsAre(11, 12));
  EXPECT_THAT(ValueOf(host.harness.Read(2, 1)), ElementsAre(13, 14));
  EXPECT_TRUE(host.harness.AwaitLoaded(1).ok());
  EXPECT_TRUE(host.harness.AwaitEnded(100).ok());
  EXPECT_TRUE(host.harness.AwaitEnded(200).ok());
}

TEST(WorkerTest, OnlyTheProgramsDevicesTakePart) {
  FakeHost host(0, 1, 4);
  host.harness.Load(1, {"add 1\nresult 0", {3, 1}});
  host.harness.Put(100, 1, {3, 1}, {{30}, {10}});
  host.harness.RunProgram(200, 1, {1}, {2});
  EXPECT_TRUE(host.harness.AwaitEnded(200).ok());
  EXPECT_EQ(host.fake->executions(), 2);
  EXPECT_THAT(ValueOf(host.harness.Read(2, 0)), ElementsAre(31));  // logical device 0 is device 3
  EXPECT_THAT(ValueOf(host.harness.Read(2, 1)), ElementsAre(11));
}

TEST(WorkerTest, ManyRunsChainInOrderAndAreAnsweredInBatches) {
  constexpr int kRuns = 3000;
  FakeHost host(0, 1, 3);
  host.harness.Load(1, {"call\nadd 1\nresult 0", {0, 1, 2}, 1, 1, {}, {Barrier(3)}});
  host.harness.Put(1, 1, {0, 1, 2}, {{0}, {100}, {200}});
  for (int i = 0; i < kRuns; ++i) {
    host.harness.RunProgram(1000 + i, 1, {1u + i}, {2u + i});
    host.harness.Free({1u + i});  // overtakes the run, which holds its argument
  }
  EXPECT_TRUE(host.harness.AwaitEnded(1000 + kRuns - 1).ok());
  for (int i = 0; i < kRuns; ++i) ASSERT_TRUE(host.harness.AwaitEnded(1000 + i).ok());
  EXPECT_THAT(ValueOf(host.harness.Read(1 + kRuns, 2)), ElementsAre(200 + kRuns));
  EXPECT_LT(host.harness.num_done_messages(), kRuns);
  EXPECT_EQ(host.comm->begun(), kRuns);
  EXPECT_EQ(host.comm->aborted(), 0);
  EXPECT_TRUE(host.BuffersFallTo(3)) << host.fake->live_buffers();
}

TEST(WorkerTest, RunsWaitForTheirCompilation) {
  FakeHost host;
  host.harness.Load(1, {"slow_compile 30000\nadd 1\nresult 0", {0, 1}});
  host.harness.Put(100, 1, {0, 1}, {{1}, {2}});
  host.harness.RunProgram(200, 1, {1}, {2});
  EXPECT_THAT(ValueOf(host.harness.Read(2, 1)), ElementsAre(3));
}

TEST(WorkerTest, OneTextIsCompiledOnce) {
  FakeHost host;
  for (uint64_t program = 1; program <= 5; ++program) {
    host.harness.Load(program, {"slow_compile 1000\nresult 0", {0, 1}});
  }
  for (uint64_t program = 1; program <= 5; ++program) {
    EXPECT_TRUE(host.harness.AwaitLoaded(program).ok());
  }
  EXPECT_EQ(host.fake->compilations(), 1);
}

TEST(WorkerTest, WhereTheUserWroteItDoesNotMatter) {
  FakeHost host;
  for (uint64_t program = 1; program <= 3; ++program) {
    const std::string line = std::to_string(program);
    host.harness.Load(program, {"result 0\n#loc0 = loc(\"train.py\":" + line + ":1)\n", {0}});
    EXPECT_TRUE(host.harness.AwaitLoaded(program).ok());
  }
  EXPECT_EQ(host.fake->compilations(), 1);
}

// Only what XLA is told of the options counts, and devices are none of it.
TEST(WorkerTest, OneTextOnOtherDevicesIsTheSame) {
  FakeHost host;
  // Serialized CompileOptionsProtos: build options (3) with device assignments (9), debug options
  // (3).
  const std::string options[] = {"", "\x1a\x04\x4a\x02\x08\x01", "\x1a\x04\x4a\x02\x08\x02",
                                 "\x1a\x05\x1a\x03\xf8\x01\x03"};
  for (uint64_t program = 1; program <= 4; ++program) {
    WorkerHarness::ProgramSpec spec = {"result 0", {program % 2 == 0 ? 1 : 0}};
    spec.xla_options = options[program - 1];
    host.harness.Load(program, spec);
    EXPECT_TRUE(host.harness.AwaitLoaded(program).ok());
  }
  EXPECT_EQ(host.fake->compilations(), 2);
}

TEST(WorkerTest, AFailedCompilationPoisonsResultsAndWhatIsMadeOfThem) {
  FakeHost host;
  host.harness.Load(1, {"bad there is no such operator", {0, 1}});
  host.harness.Load(2, {"call\nresult 0", {0, 1}, 1, 1, {}, {Barrier(2)}});
  host.harness.Put(100, 1, {0, 1}, {{1}, {2}});
  host.harness.RunProgram(200, 1, {1}, {2});
  host.harness.RunProgram(201, 2, {2}, {3});
  const absl::Status loaded = host.harness.AwaitLoaded(1);
  EXPECT_EQ(loaded.code(), absl::StatusCode::kInvalidArgument);
  for (uint64_t array : {2, 3}) {
    const absl::Status status = host.harness.Read(array, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "program p1: there is no such operator");
  }
  EXPECT_FALSE(host.harness.AwaitEnded(200).ok());
  EXPECT_FALSE(host.harness.AwaitEnded(201).ok());
  EXPECT_EQ(host.comm->begun(), 1);
  EXPECT_EQ(host.comm->ended(), 1);
  EXPECT_GE(host.comm->aborted(), 1);
}

TEST(WorkerTest, APoisonedArgumentOnOneDeviceAbortsTheOthers) {
  FakeHost host;
  host.harness.Load(1, {"fail the input is odd\nresult 0", {1}});
  host.harness.Load(2, {"call\nresult 0", {0, 1}, 1, 1, {}, {Barrier(2)}});
  host.harness.Put(100, 1, {1}, {{1}});
  host.harness.Put(101, 2, {0}, {{1}});
  host.harness.RunProgram(200, 1, {1}, {3});
  wire::ToWorker message;
  message.mutable_assemble()->set_op(102);
  message.mutable_assemble()->set_array(WorkerHarness::Id(4));
  for (uint64_t source : {2, 3}) {
    message.mutable_assemble()->add_arrays(WorkerHarness::Id(source));
    message.mutable_assemble()->add_shards(0);
    message.mutable_assemble()->add_devices(source == 2 ? 0 : 1);
  }
  host.harness.Send(message);
  EXPECT_TRUE(host.harness.AwaitEnded(102).ok());
  host.harness.RunProgram(201, 2, {4}, {5});
  EXPECT_THAT(std::string(host.harness.AwaitEnded(201).message()), HasSubstr("the input is odd"));
  for (uint32_t shard : {0, 1}) {
    EXPECT_THAT(std::string(host.harness.Read(5, shard).status().message()),
                HasSubstr("the input is odd"));
  }
}

TEST(WorkerTest, DonationConsumesTheArgumentOfAStartedRun) {
  FakeHost host;
  host.harness.Load(1, {"donate 0\nadd 1\nresult 0", {0, 1}, 1, 1, {0}});
  host.harness.Put(100, 1, {0, 1}, {{1}, {2}});
  host.harness.RunProgram(200, 1, {1}, {2}, /*keep=*/{0});
  EXPECT_TRUE(host.harness.AwaitEnded(200).ok());
  EXPECT_THAT(ValueOf(host.harness.Read(1, 0)), ElementsAre(1));
  host.harness.RunProgram(201, 1, {1}, {3});
  EXPECT_TRUE(host.harness.AwaitEnded(201).ok());
  EXPECT_THAT(ValueOf(host.harness.Read(3, 1)), ElementsAre(3));
  EXPECT_THAT(std::string(host.harness.Read(1, 0).status().message()), HasSubstr("donated"));
  host.harness.RunProgram(202, 1, {1}, {4});
  EXPECT_THAT(std::string(host.harness.AwaitEnded(202).message()), HasSubstr("donated"));
}

TEST(WorkerTest, ARunThatDoesNotStartConsumesNothing) {
  FakeHost host;
  host.harness.Load(1, {"donate 0\nrefuse out of memory\nresult 0", {0, 1}, 1, 1, {0}});
  host.harness.Put(100, 1, {0, 1}, {{1}, {2}});
  host.harness.RunProgram(200, 1, {1}, {2});
  EXPECT_THAT(std::string(host.harness.AwaitEnded(200).message()), HasSubstr("out of memory"));
  EXPECT_THAT(ValueOf(host.harness.Read(1, 1)), ElementsAre(2));
}

TEST(WorkerTest, AReadSentBeforeADonationSeesTheValue) {
  FakeHost host;
  host.harness.Load(1, {"sleep 20000\nadd 1\nresult 0", {0, 1}});
  host.harness.Load(2, {"donate 0\nadd 1\nresult 0", {0, 1}, 1, 1, {0}});
  host.harness.Put(100, 1, {0, 1}, {{1}, {2}});
  host.harness.RunProgram(200, 1, {1}, {2});
  wire::ToWorker read;
  read.mutable_read()->set_request(77);
  read.mutable_read()->set_session(WorkerHarness::kSession);
  read.mutable_read()->set_array(WorkerHarness::Id(2));
  host.harness.Send(read);
  host.harness.RunProgram(201, 2, {2}, {3});
  const wire::ReadDone done =
      host.harness.Await([](const wire::FromWorker& message) { return message.has_read_done(); })
          .read_done();
  EXPECT_EQ(done.status().code(), 0) << done.status().message();
  EXPECT_TRUE(host.harness.AwaitEnded(201).ok());
}

TEST(WorkerTest, UnknownNamesPoisonAndNeverHang) {
  FakeHost host;
  host.harness.RunProgram(200, 9, {1}, {2});
  EXPECT_EQ(host.harness.AwaitEnded(200).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(host.harness.Read(2, 0).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(host.harness.Read(55, 0).status().code(), absl::StatusCode::kNotFound);
  host.harness.Load(1, {"result 0", {0, 1}});
  host.harness.RunProgram(201, 1, {55}, {3});
  EXPECT_EQ(host.harness.AwaitEnded(201).code(), absl::StatusCode::kNotFound);
  host.harness.RunProgram(202, 1, {1, 1}, {4});
  EXPECT_EQ(host.harness.AwaitEnded(202).code(), absl::StatusCode::kInvalidArgument);
  host.harness.Put(100, 5, {0}, {{1}});
  host.harness.RunProgram(203, 1, {5}, {6});  // array 5 has no shard on device 1
  EXPECT_EQ(host.harness.AwaitEnded(203).code(), absl::StatusCode::kInvalidArgument);
}

TEST(WorkerTest, HostPoisonMakesPoisonedResults) {
  FakeHost host;
  wire::ToWorker message;
  message.mutable_poison()->set_run(200);
  message.mutable_poison()->add_arrays(WorkerHarness::Id(1));
  wire::ToProto(absl::DataLossError("it never was"), message.mutable_poison()->mutable_status());
  host.harness.Send(message);
  EXPECT_EQ(host.harness.Read(1, 4).status().message(), "it never was");
}

TEST(WorkerTest, ClosingTheSessionDropsWhatIsQueuedAndAllArrays) {
  FakeHost host;
  host.harness.Load(1, {"call\nsleep 1000\nresult 0", {0, 1}, 1, 1, {}, {Barrier(2)}});
  host.harness.Put(100, 1, {0, 1}, {{1}, {2}});
  for (int i = 0; i < 10000; ++i) host.harness.RunProgram(1000 + i, 1, {1}, {2u + i});
  host.harness.CloseSession();
  EXPECT_EQ(host.harness.AwaitEnded(10999).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(host.BuffersFallTo(0)) << host.fake->live_buffers();
  EXPECT_LT(host.fake->executions(), 20000);
}

TEST(WorkerTest, TheArenaCarriesLargeShards) {
  FakeHost host;
  host.harness.CloseSession();
  auto arena = wire::CreateArena(1 << 20);
  ASSERT_TRUE(arena.ok()) << arena.status();
  auto view = wire::ArenaView::Map(wire::UniqueFd(dup(arena->get())), 1 << 20);
  ASSERT_TRUE(view.ok()) << view.status();
  host.harness.OpenSession(arena->get(), 1 << 20);
  std::vector<float> values(10000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::memcpy((*view)->Block(4096, 40000)->data(), values.data(), 40000);

  wire::ToWorker message;
  wire::HostPut* put = message.mutable_put();
  put->set_op(100);
  put->set_array(WorkerHarness::Id(1));
  put->set_element(static_cast<uint32_t>(ElementType::kF32));
  put->add_shard_dims(10000);
  for (int device : {0, 1}) {
    put->add_devices(device);
    put->add_offsets(4096);
  }
  host.harness.Send(message);
  host.harness.Load(1, {"add 1\nresult 0", {0, 1}});
  host.harness.RunProgram(200, 1, {1}, {2});

  wire::ToWorker read;
  read.mutable_read()->set_request(7);
  read.mutable_read()->set_session(WorkerHarness::kSession);
  read.mutable_read()->set_array(WorkerHarness::Id(2));
  read.mutable_read()->set_shard(1);
  read.mutable_read()->set_offset(65536);
  read.mutable_read()->set_size(40000);
  host.harness.Send(read);
  const wire::FromWorker done =
      host.harness.Await([](const wire::FromWorker& m) { return m.has_read_done(); });
  EXPECT_EQ(done.read_done().status().code(), 0) << done.read_done().status().message();
  const float* got = reinterpret_cast<const float*>((*view)->Block(65536, 40000)->data());
  EXPECT_EQ(got[0], 1);
  EXPECT_EQ(got[9999], 10000);

  put->set_op(101);
  put->set_array(WorkerHarness::Id(3));
  put->set_offsets(1, (1 << 20) - 39999);
  host.harness.Send(message);
  EXPECT_EQ(host.harness.AwaitEnded(101).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(host.harness.Read(3, 1).status().code(), absl::StatusCode::kOutOfRange);
}

wire::ToWorker CopyMessage(uint64_t op, uint64_t array, uint64_t source,
                           const std::vector<int>& from, const std::vector<int>& to) {
  wire::ToWorker message;
  wire::HostCopy* copy = message.mutable_copy();
  copy->set_op(op);
  copy->set_array(WorkerHarness::Id(array));
  copy->set_source(WorkerHarness::Id(source));
  copy->mutable_source_devices()->Add(from.begin(), from.end());
  copy->mutable_devices()->Add(to.begin(), to.end());
  copy->set_element(static_cast<uint32_t>(ElementType::kF32));
  copy->add_shard_dims(1);
  return message;
}

TEST(WorkerTest, CopiesBetweenDevices) {
  FakeHost host;
  host.harness.Put(100, 1, {0, 1}, {{1}, {2}});
  host.harness.Send(CopyMessage(101, 2, 1, {0, 1}, {1, 0}));
  EXPECT_TRUE(host.harness.AwaitEnded(101).ok());
  host.harness.Load(1, {"result 0", {1, 0}});
  host.harness.RunProgram(200, 1, {2}, {3});
  EXPECT_THAT(ValueOf(host.harness.Read(3, 0)), ElementsAre(1));
  EXPECT_THAT(ValueOf(host.harness.Read(3, 1)), ElementsAre(2));
}

TEST(WorkerTest, CopiesBetweenHostsCarryValuesAndPoison) {
  auto network = std::make_shared<FakeNetwork>();
  FakeHost first(0, 2, 1, network);
  FakeHost second(1, 2, 1, network);
  first.harness.Put(100, 1, {0}, {{41}});
  second.harness.Put(100, 1, {1}, {{42}});
  for (FakeHost* host : {&first, &second}) {
    host->harness.Send(CopyMessage(101, 2, 1, {0}, {1}));
    host->harness.Send(CopyMessage(102, 3, 9, {0}, {1}));  // there is no array 9
    EXPECT_TRUE(host->harness.AwaitEnded(101).ok());
    EXPECT_EQ(host->harness.AwaitEnded(102).code(), absl::StatusCode::kNotFound);
  }
  EXPECT_THAT(ValueOf(second.harness.Read(2, 0)), ElementsAre(41));
  EXPECT_EQ(second.harness.Read(3, 0).status().code(), absl::StatusCode::kNotFound);
}

TEST(WorkerTest, AnswersPings) {
  FakeHost host;
  wire::ToWorker ping;
  ping.set_ping(77);
  host.harness.Send(ping);
  EXPECT_EQ(host.harness.Await([](const wire::FromWorker& m) { return m.pong() != 0; }).pong(),
            77u);
}

TEST(WorkerTest, RefusesAConfigurationThatMakesNoSense) {
  wire::Configure configure = WorkerHarness::OneHost(2);
  configure.add_devices(1);
  WorkerHarness harness(
      [](const wire::Configure& message, wire::UniqueFd) -> absl::StatusOr<Worker::Parts> {
        return HostTopology::FromMessage(message).status();
      },
      configure);
  EXPECT_EQ(harness.ready().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace shardway::worker
