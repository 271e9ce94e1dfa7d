// The handler inside a real plugin: devices are threads, as in a worker.
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardway/comm/test_plugin.h"
#include "xla/ffi/api/ffi.h"

namespace shardway::comm {
namespace {

using collective::Kind;
using collective::Reduction;
using collective::Spec;
using ::testing::HasSubstr;

std::unique_ptr<Communicator> MakeCommunicator(int devices, Duration timeout) {
  Communicator::Options options;
  options.host_of_device.assign(devices, 0);
  for (int i = 0; i < devices; ++i) options.local_devices.push_back(i);
  options.timeout = timeout;
  return *Communicator::Create(options);
}

Spec AllReduce(int site, int devices, std::vector<int64_t> dims) {
  Spec spec;
  spec.site = site;
  spec.reduction = Reduction::kSum;
  spec.operands = spec.results = {{ElementType::kF32, std::move(dims)}};
  spec.groups = {.mesh = {devices}, .axes = {0}};
  spec.location = "train.py:7";
  return spec;
}

std::string Call(int site, const std::string& result, const std::string& operand,
                 const std::string& type) {
  return "  " + result + " = stablehlo.custom_call @shardway.collective(" + operand +
         ") {api_version = 4 : i32, has_side_effect = true, backend_config = {site = " +
         std::to_string(site) + " : i32, op = \"all_reduce\"}} : (" + type + ") -> " + type + "\n";
}

std::string Module(const std::string& type, const std::string& body) {
  return "module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n"
         " func.func public @main(%x: " +
         type + ") -> " + type + " {\n" + body + " }\n}";
}

// One plugin for all tests: XLA does not unload.
TestPlugin& Plugin() {
  static auto& plugin = *new TestPlugin(TestPlugin::DefaultPath(), 16);
  return plugin;
}

// Runs `executable` on `devices` devices as launch `launch`; device d's argument is d + 1
// everywhere.
std::vector<std::string> RunAll(PJRT_LoadedExecutable* executable, int devices, int launch,
                                int64_t elements, std::vector<std::vector<float>>* results,
                                int absent = -1) {
  std::vector<std::string> errors(devices);
  results->assign(devices, std::vector<float>(elements));
  std::vector<std::thread> threads;
  for (int device = 0; device < devices; ++device) {
    if (device == absent) continue;
    threads.emplace_back([&, device] {
      const std::vector<float> data(elements, static_cast<float>(device + 1));
      PJRT_Buffer* argument =
          Plugin().FromHost(device, PJRT_Buffer_Type_F32, {elements}, data.data());
      PJRT_Buffer* result = Plugin().Execute(executable, device, launch, argument, &errors[device]);
      if (result != nullptr) {
        Plugin().ToHost(result, (*results)[device].data(), elements * sizeof(float));
        Plugin().Free(result);
      }
      Plugin().Free(argument);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

class FfiHandlerTest : public testing::TestWithParam<int> {};

// Two calls of one function on independent operands are two sites; XLA may run them in any order.
TEST_P(FfiHandlerTest, TwoIndependentCollectivesManyTimes) {
  const int devices = GetParam();
  const int64_t elements = 1000;
  auto communicator = MakeCommunicator(devices, std::chrono::seconds(30));
  auto program = communicator->Prepare(
      {AllReduce(0, devices, {elements}), AllReduce(1, devices, {elements})}, [&] {
        std::vector<int> ids;
        for (int i = 0; i < devices; ++i) ids.push_back(i);
        return ids;
      }());
  ASSERT_TRUE(program.ok()) << program.status();
  const std::string type = "tensor<1000xf32>";
  PJRT_LoadedExecutable* executable = Plugin().Compile(
      Module(type, "  %n = stablehlo.negate %x : " + type + "\n" + Call(0, "%a", "%x", type) +
                       Call(1, "%b", "%n", type) + "  %m = stablehlo.multiply %a, %b : " + type +
                       "\n  return %m : " + type + "\n"));
  const float sum = static_cast<float>(devices * (devices + 1) / 2);
  for (int run = 1; run <= 4000 / devices; ++run) {
    communicator->BeginLaunch(run, *program);
    std::vector<std::vector<float>> results;
    for (const std::string& error : RunAll(executable, devices, run, elements, &results)) {
      ASSERT_EQ(error, "");
    }
    communicator->EndLaunch(run);
    for (const std::vector<float>& result : results) {
      ASSERT_THAT(result, testing::Each(-sum * sum)) << "run " << run;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, FfiHandlerTest, testing::Values(2, 4, 16));

TEST(FfiHandlerTest, LoopWithWorkOnMoreDevicesThanCores) {
  const int devices = 8;
  auto communicator = MakeCommunicator(devices, std::chrono::seconds(60));
  Spec spec = AllReduce(0, devices, {128, 128});
  spec.work_after_us = 200;
  auto program = communicator->Prepare({spec}, {0, 1, 2, 3, 4, 5, 6, 7});
  ASSERT_TRUE(program.ok()) << program.status();
  const std::string type = "tensor<128x128xf32>";
  const std::string body =
      "  %s = stablehlo.constant dense<0.0009765625> : " + type +  // 1 / (8 * 128)
      "\n  %x2 = stablehlo.reshape %x : (tensor<16384xf32>) -> " + type +
      "\n  %o = stablehlo.constant dense<1.0> : " + type +
      "\n  %zero = stablehlo.constant dense<0> : tensor<i32>\n  %r:2 = stablehlo.while(%i = %zero, "
      "%a = %x2) : tensor<i32>, " +
      type +
      "\n  cond {\n  %n = stablehlo.constant dense<20> : tensor<i32>\n  %c = stablehlo.compare LT, "
      "%i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n  stablehlo.return %c : tensor<i1>\n  } "
      "do {\n" +
      Call(0, "%b", "%a", type) +
      "  %d = stablehlo.dot_general %b, %o, contracting_dims = [1] x [0]"
      " : (" +
      type + ", " + type + ") -> " + type + "\n  %e = stablehlo.multiply %d, %s : " + type +
      "\n  %one = stablehlo.constant dense<1> : tensor<i32>\n  %j = stablehlo.add %i, %one : "
      "tensor<i32>\n  stablehlo.return %j, %e : tensor<i32>, " +
      type + "\n  }\n  %f = stablehlo.reshape %r#1 : (" + type +
      ") -> tensor<16384xf32>\n  return %f : tensor<16384xf32>\n";
  PJRT_LoadedExecutable* executable = Plugin().Compile(Module("tensor<16384xf32>", body));
  for (int run = 1; run <= 5; ++run) {
    communicator->BeginLaunch(run, *program);
    std::vector<std::vector<float>> results;
    for (const std::string& error : RunAll(executable, devices, run, 16384, &results)) {
      ASSERT_EQ(error, "");
    }
    communicator->EndLaunch(run);
    // The mean over devices of 1 … 8, kept by every further step.
    for (const auto& result : results) ASSERT_THAT(result, testing::Each(4.5f));
  }
}

// Blocks until `kMeeting` devices are in it at the same time.
constexpr int kMeeting = 2;
struct Meeting {
  std::mutex mutex;
  std::condition_variable changed;
  int come = 0;
} meeting;

XLA_FFI_DEFINE_HANDLER(
    MeetHandler,
    [](xla::ffi::AnyBuffer, xla::ffi::Result<xla::ffi::AnyBuffer> result) {
      std::memset(result->untyped_data(), 0, result->size_bytes());
      std::unique_lock<std::mutex> lock(meeting.mutex);
      const int round = meeting.come++ / kMeeting;
      meeting.changed.notify_all();
      const bool met = meeting.changed.wait_for(
          lock, std::chrono::seconds(20), [&] { return meeting.come >= (round + 1) * kMeeting; });
      return met ? xla::ffi::Error::Success()
                 : xla::ffi::Error::Internal("the other device did not come meanwhile");
    },
    xla::ffi::Ffi::Bind().Arg<xla::ffi::AnyBuffer>().Ret<xla::ffi::AnyBuffer>());

// What follows a collective on one device does not wait for what follows on another, even though
// XLA continues a program on the thread that fulfils its promise: all cores are kept busy.
TEST(FfiHandlerTest, WorkAfterACollectiveRunsOnAllDevicesAtOnce) {
  Plugin().Register("shardway.test.meet", reinterpret_cast<void*>(MeetHandler));
  auto communicator = MakeCommunicator(kMeeting, std::chrono::seconds(60));
  std::vector<Spec> specs = {AllReduce(0, kMeeting, {4}), AllReduce(1, kMeeting, {4})};
  for (Spec& spec : specs) spec.work_after_us = 10'000;
  auto program = communicator->Prepare(specs, {0, 1});
  ASSERT_TRUE(program.ok()) << program.status();
  const std::string type = "tensor<4xf32>";
  const auto meet = [&](const std::string& result, const std::string& operand) {
    return "  " + result + " = stablehlo.custom_call @shardway.test.meet(" + operand +
           ") {api_version = 4 : i32, has_side_effect = true, backend_config = {}} : (" + type +
           ") -> " + type + "\n";
  };
  PJRT_LoadedExecutable* executable = Plugin().Compile(
      Module(type, Call(0, "%a", "%x", type) + meet("%b", "%a") + Call(1, "%c", "%b", type) +
                       meet("%d", "%c") + "  return %d : " + type + "\n"));
  for (int run = 1; run <= 20; ++run) {
    communicator->BeginLaunch(run, *program);
    std::vector<std::vector<float>> results;
    for (const std::string& error : RunAll(executable, kMeeting, run, 4, &results)) {
      ASSERT_EQ(error, "");
    }
    communicator->EndLaunch(run);
  }
}

TEST(FfiHandlerTest, DenormalsAreFlushedAsByXla) {
  auto communicator = MakeCommunicator(2, std::chrono::seconds(30));
  auto program = communicator->Prepare({AllReduce(0, 2, {4})}, {0, 1});
  const std::string type = "tensor<4xf32>";
  // Makes the smallest normal number smaller, adds on both devices; XLA alone adds twice the same.
  const std::string half = "  %h = stablehlo.constant dense<1.1754943508222875e-38> : " + type +
                           "\n  %y = stablehlo.multiply %x, %h : " + type + "\n";
  PJRT_LoadedExecutable* executable = Plugin().Compile(
      Module(type, half + Call(0, "%a", "%y", type) + "  return %a : " + type + "\n"));
  communicator->BeginLaunch(1, *program);
  std::vector<std::vector<float>> results;
  for (const std::string& error : RunAll(executable, 2, 1, 4, &results)) ASSERT_EQ(error, "");
  communicator->EndLaunch(1);
  const float smallest = 1.1754943508222875e-38f;
  EXPECT_THAT(results[0], testing::Each(3 * smallest));
  EXPECT_EQ(results[0], results[1]);
}

TEST(FfiHandlerTest, MissingDeviceIsNamed) {
  auto communicator = MakeCommunicator(4, std::chrono::milliseconds(200));
  auto program = communicator->Prepare({AllReduce(0, 4, {4})}, {0, 1, 2, 3});
  const std::string type = "tensor<4xf32>";
  PJRT_LoadedExecutable* executable =
      Plugin().Compile(Module(type, Call(0, "%a", "%x", type) + "  return %a : " + type + "\n"));
  communicator->BeginLaunch(1, *program);
  for (int device = 0; device < 4; ++device) communicator->DeviceStarts(1, device);
  std::vector<std::vector<float>> results;
  const std::vector<std::string> errors = RunAll(executable, 4, 1, 4, &results, /*absent=*/2);
  communicator->EndLaunch(1);
  for (int device : {0, 1, 3}) {
    EXPECT_THAT(errors[device], HasSubstr("all_reduce sum f32[4]"));
    EXPECT_THAT(errors[device], HasSubstr("train.py:7"));
    EXPECT_THAT(errors[device], HasSubstr("device 2 on host 0"));
  }
}

TEST(FfiHandlerTest, ShapesAreChecked) {
  auto communicator = MakeCommunicator(1, std::chrono::seconds(30));
  auto program = communicator->Prepare({AllReduce(0, 1, {5})}, {0});
  const std::string type = "tensor<4xf32>";
  PJRT_LoadedExecutable* executable =
      Plugin().Compile(Module(type, Call(0, "%a", "%x", type) + "  return %a : " + type + "\n"));
  communicator->BeginLaunch(1, *program);
  std::vector<std::vector<float>> results;
  EXPECT_THAT(RunAll(executable, 1, 1, 4, &results)[0], HasSubstr("not f32[5]"));
  communicator->EndLaunch(1);
  EXPECT_THAT(RunAll(executable, 1, 2, 4, &results)[0], HasSubstr("launch 2 is not open"));
}

}  // namespace
}  // namespace shardway::comm
