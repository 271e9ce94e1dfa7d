// The worker with the real plugin, the real communicator and real collectives: what the daemon
// runs, in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/device/pjrt_test_plugins.h"
#include "shardway/worker/worker_harness.h"

namespace shardway::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

collective::Spec AllReduceSum(int site, int devices, int64_t elements) {
  collective::Spec spec;
  spec.site = site;
  spec.kind = collective::Kind::kAllReduce;
  spec.reduction = collective::Reduction::kSum;
  spec.operands = spec.results = {{ElementType::kF32, {elements}}};
  spec.groups.mesh = {devices};
  spec.groups.axes = {0};
  return spec;
}

std::string CallAllReduce(int site, const std::string& type) {
  return "stablehlo.custom_call @shardway.collective(%x" + std::to_string(site) +
         ") {api_version = 4 : i32, has_side_effect = true, backend_config = {site = " +
         std::to_string(site) + " : i32, op = \"all_reduce\"}} : (" + type + ") -> " + type;
}

// x ← mean over devices of x, plus one; `chain` times.
WorkerHarness::ProgramSpec MeanPlusOne(int devices, int chain, int64_t elements) {
  WorkerHarness::ProgramSpec spec;
  const std::string type = "tensor<" + std::to_string(elements) + "xf32>";
  spec.text = "module @m {func.func public @main(%x0: " + type + ") -> (" + type + ") {\n" +
              "%k = stablehlo.constant dense<" + std::to_string(1.0 / devices) + "> : " + type +
              "\n%o = stablehlo.constant dense<1.0> : " + type + "\n";
  for (int i = 0; i < chain; ++i) {
    const std::string n = std::to_string(i);
    spec.text += "%r" + n + " = " + CallAllReduce(i, type) + "\n%m" + n +
                 " = stablehlo.multiply %r" + n + ", %k : " + type + "\n%x" +
                 std::to_string(i + 1) + " = stablehlo.add %m" + n + ", %o : " + type + "\n";
    spec.collectives.push_back(AllReduceSum(i, devices, elements));
  }
  spec.text += "return %x" + std::to_string(chain) + " : " + type + "}}";
  for (int device = 0; device < devices; ++device) spec.devices.push_back(device);
  return spec;
}

class WorkerPluginTest : public ::testing::TestWithParam<device::TestPlugin> {
 protected:
  void SetUp() override {
    plugin_ = device::FindTestPlugin(GetParam());
    if (plugin_.empty()) GTEST_SKIP() << GetParam().name << " is not installed";
  }
  std::unique_ptr<WorkerHarness> Start(int devices, int callback_timeout_ms = 0) {
    wire::Configure configure = WorkerHarness::OneHost(devices);
    configure.set_plugin_path(plugin_);
    configure.set_collective_timeout_ms(20000);
    configure.set_callback_timeout_ms(callback_timeout_ms);
    auto harness = std::make_unique<WorkerHarness>(MakeParts, configure);
    EXPECT_TRUE(harness->ready().ok()) << harness->ready();
    harness->OpenSession();
    return harness;
  }
  std::string plugin_;
};
// Without custom calls every plugin serves; with them, those that find our handlers.
class WorkerPluginCallsTest : public WorkerPluginTest {};

TEST_P(WorkerPluginCallsTest, PsumOnTwoDevices) {
  auto worker = Start(2);
  worker->Load(1, MeanPlusOne(2, 1, 3));
  worker->Put(100, 1, {0, 1}, {{1, 2, 3}, {5, 6, 7}});
  worker->RunProgram(200, 1, {1}, {2});
  const absl::Status loaded = worker->AwaitLoaded(1);
  ASSERT_TRUE(loaded.ok()) << loaded;
  for (uint32_t shard : {0, 1}) {
    auto values = worker->Read(2, shard);
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_THAT(*values, ElementsAre(4, 5, 6));
  }
}

TEST_P(WorkerPluginCallsTest, ManyDevicesManyRuns) {
  constexpr int kRuns = 500;
  auto worker = Start(8);
  const std::vector<int> devices = {0, 1, 2, 3, 4, 5, 6, 7};
  worker->Load(1, MeanPlusOne(8, 4, 1));
  worker->Put(100, 1, devices, {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}});
  for (int i = 0; i < kRuns; ++i) {
    worker->RunProgram(1000 + i, 1, {1u + i}, {2u + i});
    worker->Free({1u + i});
  }
  auto values = worker->Read(1 + kRuns, 7);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, ElementsAre(3.5f + 4 * kRuns));
}

TEST_P(WorkerPluginTest, CoordinatesTellDevicesApart) {
  auto worker = Start(4);
  WorkerHarness::ProgramSpec spec;
  spec.text = R"(module @m {func.func public @main(%x: tensor<1xf32>, %c: tensor<2xi32>) ->
      (tensor<1xf32>) {
    %p = stablehlo.slice %c [1:2] : (tensor<2xi32>) -> tensor<1xi32>
    %f = stablehlo.convert %p : (tensor<1xi32>) -> tensor<1xf32>
    %r = stablehlo.add %x, %f : tensor<1xf32>
    return %r : tensor<1xf32>}})";
  spec.devices = {3, 1, 0, 2};
  spec.uses_coordinates = true;
  worker->Load(1, spec);
  worker->Put(100, 1, spec.devices, {{10}, {10}, {10}, {10}});
  worker->RunProgram(200, 1, {1}, {2});
  for (uint32_t shard = 0; shard < 4; ++shard) {
    auto values = worker->Read(2, shard);
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_THAT(*values, ElementsAre(10.0f + shard));
  }
}

TEST_P(WorkerPluginTest, ACompilersErrorPoisons) {
  auto worker = Start(2);
  worker->Load(1, {"module @m {func.func public @main(%x: tensor<1xf32>) -> (tensor<2xf32>) {\n"
                   "return %x : tensor<1xf32>}}",
                   {0, 1}});
  worker->Put(100, 1, {0, 1}, {{1}, {2}});
  worker->RunProgram(200, 1, {1}, {2});
  EXPECT_THAT(std::string(worker->AwaitEnded(200).message()), HasSubstr("program p1: compiling"));
  EXPECT_FALSE(worker->Read(2, 1).ok());
}

TEST_P(WorkerPluginCallsTest, APoisonedDeviceDoesNotHangItsPeers) {
  auto worker = Start(2);
  worker->Load(1, MeanPlusOne(2, 2, 1));
  worker->Put(100, 1, {0}, {{1}});  // nothing on device 1
  worker->RunProgram(200, 1, {1}, {2});
  EXPECT_THAT(std::string(worker->AwaitEnded(200).message()), HasSubstr("no shard on device 1"));
  EXPECT_THAT(std::string(worker->Read(2, 0).status().message()),
              HasSubstr("no shard on device 1"));
  worker->Put(101, 3, {0, 1}, {{1}, {1}});
  worker->RunProgram(201, 1, {3}, {4});
  EXPECT_TRUE(worker->AwaitEnded(201).ok());
}

TEST_P(WorkerPluginTest, DonatedMemoryIsReused) {
  auto worker = Start(2);
  WorkerHarness::ProgramSpec spec;
  spec.text = R"(module @m {func.func public @main(
      %x: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<4xf32>) {
    %r = stablehlo.add %x, %x : tensor<4xf32>
    return %r : tensor<4xf32>}})";
  spec.devices = {0, 1};
  spec.donated = {0};
  worker->Load(1, spec);
  worker->Put(100, 1, {0, 1}, {{1, 2, 3, 4}, {5, 6, 7, 8}});
  worker->RunProgram(200, 1, {1}, {2});
  ASSERT_TRUE(worker->AwaitEnded(200).ok());
  EXPECT_THAT(*worker->Read(2, 1), ElementsAre(10, 12, 14, 16));
  EXPECT_THAT(std::string(worker->Read(1, 0).status().message()), HasSubstr("donated"));
}

// A program that hands its argument to the host and doubles what comes back.
WorkerHarness::ProgramSpec Callback(std::vector<int> devices) {
  WorkerHarness::ProgramSpec spec;
  spec.text = R"(module @m {func.func public @main(%x: tensor<2xf32>) -> (tensor<2xf32>) {
    %r = stablehlo.custom_call @shardway.callback(%x) {api_version = 4 : i32,
        has_side_effect = true, backend_config = {callback = 9 : i64, name = "f at a.py:1"}} :
        (tensor<2xf32>) -> tensor<2xf32>
    %d = stablehlo.add %r, %r : tensor<2xf32>
    return %d : tensor<2xf32>}})";
  spec.devices = std::move(devices);
  return spec;
}

wire::HostCallback AwaitCallback(WorkerHarness& worker) {
  return worker.Await([](const wire::FromWorker& m) { return m.has_callback(); }).callback();
}

wire::ToWorker Answer(const wire::HostCallback& call, std::vector<float> values) {
  wire::ToWorker message;
  message.mutable_callback_return()->set_call(call.call());
  message.mutable_callback_return()->add_results(reinterpret_cast<const char*>(values.data()),
                                                 values.size() * sizeof(float));
  return message;
}

TEST_P(WorkerPluginCallsTest, HostCallbacksGoOutAndComeBack) {
  auto worker = Start(2);
  worker->Load(1, Callback({0, 1}));
  worker->Put(100, 1, {0, 1}, {{1, 2}, {3, 4}});
  worker->RunProgram(200, 1, {1}, {2});
  for (int i = 0; i < 2; ++i) {
    const wire::HostCallback call = AwaitCallback(*worker);
    EXPECT_EQ(call.session(), WorkerHarness::kSession);
    EXPECT_EQ(call.callback(), 9u);
    ASSERT_EQ(call.operands_size(), 1);
    std::vector<float> values(2);
    ASSERT_EQ(call.operands(0).size(), 8u);
    std::memcpy(values.data(), call.operands(0).data(), 8);
    EXPECT_EQ(values[0], call.device() == 0 ? 1 : 3);
    worker->Send(Answer(call, {values[0] + 10, values[1] + 10}));
  }
  auto values = worker->Read(2, 1);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, ElementsAre(26, 28));
}

TEST_P(WorkerPluginCallsTest, AHostCallbacksErrorIsTheRuns) {
  auto worker = Start(1);
  worker->Load(1, Callback({0}));
  worker->Put(100, 1, {0}, {{1, 2}});
  worker->RunProgram(200, 1, {1}, {2});
  wire::ToWorker message;
  message.mutable_callback_return()->set_call(AwaitCallback(*worker).call());
  wire::ToProto(absl::InvalidArgumentError("ValueError: no"),
                message.mutable_callback_return()->mutable_status());
  worker->Send(message);
  EXPECT_THAT(std::string(worker->Read(2, 0).status().message()), HasSubstr("ValueError: no"));
  worker->RunProgram(201, 1, {1}, {3});
  worker->Send(Answer(AwaitCallback(*worker), {1, 2, 3}));
  EXPECT_THAT(std::string(worker->Read(3, 0).status().message()), HasSubstr("12 bytes"));
}

TEST_P(WorkerPluginCallsTest, ASessionsEndEndsItsHostCallbacks) {
  auto worker = Start(1);
  worker->Load(1, Callback({0}));
  worker->Put(100, 1, {0}, {{1, 2}});
  worker->RunProgram(200, 1, {1}, {2});
  AwaitCallback(*worker);
  worker->CloseSession();
  EXPECT_FALSE(worker->AwaitEnded(200).ok());
}

TEST_P(WorkerPluginCallsTest, AHostCallbackThatNeverReturnsIsNamed) {
  auto worker = Start(2, /*callback_timeout_ms=*/100);
  worker->Load(1, Callback({0}));
  worker->Put(100, 1, {0}, {{1, 2}});
  worker->RunProgram(200, 1, {1}, {2});
  const wire::HostCallback call = AwaitCallback(*worker);
  const absl::Status status = worker->AwaitEnded(200);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("host callback f at a.py:1, called by device 0, did not return"));
  worker->Send(Answer(call, {1, 2}));  // too late: dropped
  worker->RunProgram(201, 1, {1}, {3});
  worker->Send(Answer(AwaitCallback(*worker), {1, 2}));
  EXPECT_TRUE(worker->AwaitEnded(201).ok());
}

std::string PluginName(const testing::TestParamInfo<device::TestPlugin>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Plugins, WorkerPluginTest, testing::ValuesIn(device::kTestPlugins),
                         PluginName);
INSTANTIATE_TEST_SUITE_P(Plugins, WorkerPluginCallsTest,
                         testing::ValuesIn(device::kTestPluginsWithCalls), PluginName);

}  // namespace
}  // namespace shardway::worker
