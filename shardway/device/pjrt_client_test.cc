// The PJRT wrapper against the real plugins. Where a plugin is not installed its tests are skipped.
#include "shardway/device/pjrt_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "shardway/base/cores.h"
#include "shardway/comm/ffi_version.h"
#include "shardway/comm/run_id.h"
#include "shardway/device/pjrt_test_plugins.h"
#include "shardway/device/pjrt_types.h"
#include "xla/ffi/api/ffi.h"

namespace shardway::device {
namespace {

namespace ffi = xla::ffi;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A client per plugin and process: plugins do not like to be started twice.
Client* SharedClient(const std::string& path) {
  static auto& clients = *new std::map<std::string, std::unique_ptr<Client>>;
  std::unique_ptr<Client>& client = clients[path];
  if (client == nullptr) {
    auto loaded = LoadPjrtPlugin(path, 4, {});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (loaded.ok()) client = *std::move(loaded);
  }
  return client.get();
}

class PjrtClientTest : public ::testing::TestWithParam<TestPlugin> {
 protected:
  void SetUp() override {
    const std::string path = FindTestPlugin(GetParam());
    if (path.empty()) GTEST_SKIP() << GetParam().name << " is not installed";
    client_ = SharedClient(path);
    ASSERT_NE(client_, nullptr);
  }

  std::unique_ptr<Buffer> Upload(int device, std::vector<float> values, std::vector<int64_t> dims) {
    auto buffer = client_->FromHost(device, ElementType::kF32, dims, values.data());
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return buffer.ok() ? *std::move(buffer) : nullptr;
  }

  static std::vector<float> Download(Buffer& buffer) {
    std::vector<float> values(buffer.num_bytes() / sizeof(float));
    const absl::Status status = buffer.ToHost(values.data(), buffer.num_bytes());
    EXPECT_TRUE(status.ok()) << status;
    return values;
  }

  Client* client_ = nullptr;
};

TEST_P(PjrtClientTest, DescribesItself) {
  EXPECT_EQ(client_->num_devices(), 4);
  EXPECT_EQ(client_->platform_name(), "cpu");
}

TEST_P(PjrtClientTest, BuffersGoUpAndDown) {
  auto buffer = Upload(3, {1, 2, 3, 4, 5, 6}, {2, 3});
  ASSERT_NE(buffer, nullptr);
  EXPECT_EQ(buffer->num_bytes(), 24u);
  EXPECT_THAT(buffer->dims(), ElementsAre(2, 3));
  EXPECT_THAT(Download(*buffer), ElementsAre(1, 2, 3, 4, 5, 6));
  for (int device = 0; device < 4; ++device) {  // whether or not it is the same to the plugin
    auto source = Upload(3, {1, 2, 3, 4, 5, 6}, {2, 3});
    auto copy = client_->CopyTo(*source, device);
    ASSERT_TRUE(copy.ok()) << copy.status();
    source.reset();
    EXPECT_THAT(Download(**copy), ElementsAre(1, 2, 3, 4, 5, 6));
  }
  char small[4];
  EXPECT_EQ(buffer->ToHost(small, sizeof(small)).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(PjrtClientTest, EveryElementTypeKeepsItsBits) {
  for (int i = 1; i < kNumElementTypes; ++i) {
    const auto element = static_cast<ElementType>(i);
    if (ToPjrtType(element) == PJRT_Buffer_Type_INVALID) continue;
    SCOPED_TRACE(ElementTypeName(element));
    std::string bytes(3 * ElementBytes(element), '\0');
    for (size_t at = 0; at < bytes.size(); ++at) bytes[at] = ElementBits(element) < 8 ? at % 2 : at;
    constexpr int64_t kDims[] = {3};
    auto buffer = client_->FromHost(0, element, kDims, bytes.data());
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ((*buffer)->num_bytes(), bytes.size());
    std::string back(bytes.size(), 'x');
    const absl::Status status = (*buffer)->ToHost(back.data(), back.size());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(back, bytes);
  }
}

TEST_P(PjrtClientTest, EmptyArraysAreArrays) {
  auto buffer = Upload(0, {}, {0, 5});
  ASSERT_NE(buffer, nullptr);
  EXPECT_EQ(buffer->num_bytes(), 0u);
  EXPECT_TRUE(buffer->ToHost(nullptr, 0).ok());
}

TEST_P(PjrtClientTest, ReadsColumnMajorResultsAsRowMajor) {
  auto program = client_->Compile(R"(module @m { func.func public @main(%a: tensor<2x3xf32>) ->
      (tensor<3x2xf32>) {
    %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    return %t : tensor<3x2xf32> } })",
                                  "");
  ASSERT_TRUE(program.ok()) << program.status();
  auto argument = Upload(0, {1, 2, 3, 4, 5, 6}, {2, 3});
  Buffer* arguments[] = {argument.get()};
  std::vector<std::unique_ptr<Buffer>> results;
  bool consumed = false;
  ASSERT_TRUE((*program)->Execute({0, 1, arguments, {}}, &results, &consumed).ok());
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(results[0]->dims(), ElementsAre(3, 2));
  EXPECT_THAT(Download(*results[0]), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST_P(PjrtClientTest, OneExecutableRunsOnEveryDevice) {
  auto program = client_->Compile(R"(module @m { func.func public @main(%a: tensor<2xf32>) ->
      (tensor<2xf32>, tensor<2xf32>) {
    %s = stablehlo.add %a, %a : tensor<2xf32>
    %m = stablehlo.multiply %a, %a : tensor<2xf32>
    return %s, %m : tensor<2xf32>, tensor<2xf32> } })",
                                  "");
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int device = 0; device < 4; ++device) {
    threads.emplace_back([&, device] {
      auto argument = Upload(device, {3, 4}, {2});
      Buffer* arguments[] = {argument.get()};
      std::vector<std::unique_ptr<Buffer>> results;
      bool consumed = false;
      const absl::Status status =
          (*program)->Execute({device, 7, arguments, {}}, &results, &consumed);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(results.size(), 2u);
      EXPECT_THAT(Download(*results[0]), ElementsAre(6, 8));
      EXPECT_THAT(Download(*results[1]), ElementsAre(9, 16));
      EXPECT_THAT(Download(*argument), ElementsAre(3, 4));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(PjrtClientTest, DonationConsumesOnlyWhatMayBeDonated) {
  auto program = client_->Compile(R"(module @m { func.func public @main(
      %a: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<2xf32>) {
    %s = stablehlo.add %a, %a : tensor<2xf32>
    return %s : tensor<2xf32> } })",
                                  "");
  ASSERT_TRUE(program.ok()) << program.status();
  auto argument = Upload(0, {3, 4}, {2});
  Buffer* arguments[] = {argument.get()};
  std::vector<std::unique_ptr<Buffer>> results;
  bool consumed = false;
  const int64_t keep[] = {0};
  ASSERT_TRUE((*program)->Execute({0, 1, arguments, keep}, &results, &consumed).ok());
  EXPECT_THAT(Download(*argument), ElementsAre(3, 4));
  ASSERT_TRUE((*program)->Execute({0, 2, arguments, {}}, &results, &consumed).ok());
  EXPECT_TRUE(consumed);
  EXPECT_THAT(Download(*results[0]), ElementsAre(6, 8));
  std::vector<float> gone(2);
  EXPECT_FALSE(argument->ToHost(gone.data(), 8).ok());
  EXPECT_FALSE((*program)->Execute({0, 3, arguments, {}}, &results, &consumed).ok());
  EXPECT_TRUE(results.empty());
}

TEST_P(PjrtClientTest, ErrorsAreValues) {
  auto program = client_->Compile("this is not a program", "");
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("compiling"));
  auto unknown = client_->Compile(R"(module @m { func.func public @main(%a: tensor<f32>) ->
      (tensor<f32>) {
    %r = stablehlo.custom_call @nobody.knows(%a) {api_version = 4 : i32, backend_config = {}} :
        (tensor<f32>) -> tensor<f32>
    return %r : tensor<f32> } })",
                                  "");
  if (unknown.ok()) {  // some plugins only look when they run
    auto argument = Upload(0, {3}, {});
    Buffer* arguments[] = {argument.get()};
    std::vector<std::unique_ptr<Buffer>> results;
    bool consumed = true;
    EXPECT_FALSE((*unknown)->Execute({0, 1, arguments, {}}, &results, &consumed).ok());
    EXPECT_FALSE(consumed);
  }
  EXPECT_EQ(client_->FromHost(99, ElementType::kF32, {}, "0123").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->FromHost(0, ElementType::kTF32, {}, "0123").status().code(),
            absl::StatusCode::kUnimplemented);
}

ffi::Error DoubleIt(ffi::RunId run, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  if (x.typed_data()[0] < 0) return ffi::Error::InvalidArgument("negative input");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = 2 * x.typed_data()[i];
  const comm::RunId id = comm::ParseRunId(run.run_id);
  y->typed_data()[1] = static_cast<float>(id.launch_key * 10 + id.ordinal);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(
    DoubleItHandler, DoubleIt,
    ffi::Ffi::Bind().Ctx<ffi::RunId>().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// What collectives rely on: handlers are called, and learn their launch and their device.
TEST_P(PjrtClientTest, CustomCallsReachOurHandlers) {
  const absl::Status registered = client_->RegisterHandler(
      "shardway.test.double", reinterpret_cast<void*>(&comm::AnyVersion<DoubleItHandler>));
  if (absl::IsUnimplemented(registered)) GTEST_SKIP() << registered;
  ASSERT_TRUE(registered.ok()) << registered;
  auto program = client_->Compile(R"(module @m { func.func public @main(%a: tensor<2xf32>) ->
      (tensor<2xf32>) {
    %r = stablehlo.custom_call @shardway.test.double(%a) {api_version = 4 : i32,
        backend_config = {}} : (tensor<2xf32>) -> tensor<2xf32>
    return %r : tensor<2xf32> } })",
                                  "");
  ASSERT_TRUE(program.ok()) << program.status();
  auto argument = Upload(3, {21, 0}, {2});
  Buffer* arguments[] = {argument.get()};
  std::vector<std::unique_ptr<Buffer>> results;
  bool consumed = false;
  const absl::Status status = (*program)->Execute({3, 7, arguments, {}}, &results, &consumed);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Download(*results[0]), ElementsAre(42, 73));

  auto negative = Upload(3, {-1, 0}, {2});
  arguments[0] = negative.get();
  const absl::Status failed = (*program)->Execute({3, 8, arguments, {}}, &results, &consumed);
  EXPECT_EQ(failed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("negative input"));
  EXPECT_TRUE(results.empty());
}

INSTANTIATE_TEST_SUITE_P(Plugins, PjrtClientTest, ::testing::ValuesIn(kTestPlugins),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CpuDevicesForTest, AreNoMoreThanCoresUnlessManyShareOne) {
  EXPECT_EQ(CpuDevicesFor(1), 1);
  for (int devices = 1; devices <= 16; ++devices) {
    EXPECT_EQ(CpuDevicesFor(devices), std::min(devices, Cores()));
  }
  for (int devices : {17, 24, 64, 1000}) {
    EXPECT_LE(devices, 16 * CpuDevicesFor(devices));
    EXPECT_LE(CpuDevicesFor(devices), devices);
  }
}

TEST(LoadPjrtPluginTest, RefusesWhatIsNoPlugin) {
  EXPECT_EQ(LoadPjrtPlugin("/no/such/plugin.so", 1, {}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadPjrtPlugin("libm.so.6", 1, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace shardway::device
