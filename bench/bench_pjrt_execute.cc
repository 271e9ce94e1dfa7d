// What the PJRT plugin itself costs per call: one launch on N devices with A arguments as one whole
// array each and one result, events and buffers destroyed as JAX does, on a session that does
// nothing.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "shardway/pjrt_plugin/api.h"
#include "shardway/pjrt_plugin/cluster.h"

namespace shardway::pjrt_plugin {
namespace {

class NullSession : public client::Session {
 public:
  NullSession(int devices, int parameters) : parameters_(parameters) {
    for (int i = 0; i < devices; ++i) devices_.push_back({.id = i, .local = i});
  }
  const std::string& platform() const override { return platform_; }
  const std::string& platform_version() const override { return platform_; }
  const std::vector<client::Device>& devices() const override { return devices_; }
  absl::StatusOr<ArrayId> Put(const client::ArraySpec&,
                              absl::Span<const client::HostShard>) override {
    return ArrayId{++last_};
  }
  ArrayId Assemble(absl::Span<const ArrayId>, absl::Span<const uint32_t>) override {
    return ArrayId{++last_};
  }
  ArrayId Copy(ArrayId, absl::Span<const int>) override { return ArrayId{++last_}; }
  absl::StatusOr<client::Program> Compile(std::string,
                                          const client::CompileOptions& options) override {
    const client::Boundary boundary{
        .element = ElementType::kF32, .global_dims = {8}, .local_dims = {1}};
    client::Program program{.id = {1}, .name = "jit_f", .results = {boundary}};
    program.parameters.assign(static_cast<size_t>(parameters_), boundary);
    program.devices = options.devices;
    return program;
  }
  ArrayId Run(ProgramId, absl::Span<const ArrayId>, int num_results, absl::Span<const uint32_t>,
              DoneCallback done) override {
    done(absl::OkStatus());
    const ArrayId first{last_ + 1};
    last_ += static_cast<uint64_t>(num_results);
    return first;
  }
  void OnReady(ArrayId, DoneCallback callback) override { callback(absl::OkStatus()); }
  bool IsReady(ArrayId) override { return true; }
  void Read(ArrayId, uint32_t, void*, size_t, DoneCallback callback) override {
    callback(absl::OkStatus());
  }
  void Free(ArrayId) override {}
  void FreeProgram(ProgramId) override {}
  void SetCallbackHandler(client::CallbackHandler) override {}

 private:
  const int parameters_;
  const std::string platform_ = "cpu";
  std::vector<client::Device> devices_;
  uint64_t last_ = 0;
};

// A client with one compiled program and its arguments.
struct Launcher {
  Launcher(int devices, int arguments) : n(static_cast<size_t>(devices)) {
    SetSessionFactory([=]() -> absl::StatusOr<std::unique_ptr<client::Session>> {
      return std::make_unique<NullSession>(devices, arguments);
    });
    PJRT_Client_Create_Args create{.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE};
    api->PJRT_Client_Create(&create);
    client = create.client;
    Compile();
    PJRT_Client_Devices_Args list{.struct_size = PJRT_Client_Devices_Args_STRUCT_SIZE,
                                  .client = client};
    api->PJRT_Client_Devices(&list);
    inputs.resize(n);
    outputs.assign(n, nullptr);
    events.assign(n, nullptr);
    for (int a = 0; a < arguments; ++a) {
      for (size_t d = 0; d < n; ++d) inputs[d].push_back(Put(list.devices[d]));
    }
    for (size_t d = 0; d < n; ++d) {
      input_lists.push_back(inputs[d].data());
      output_lists.push_back(&outputs[d]);
    }
  }
  ~Launcher() {
    for (const auto& list : inputs) {
      for (PJRT_Buffer* buffer : list) Destroy(buffer);
    }
    PJRT_LoadedExecutable_Destroy_Args destroy{.executable = executable};
    api->PJRT_LoadedExecutable_Destroy(&destroy);
    PJRT_Client_Destroy_Args end{.client = client};
    api->PJRT_Client_Destroy(&end);
  }

  void Compile() {
    // executable_build_options { num_replicas: 1 num_partitions: n }
    const std::string options = {'\x1a', '\x04', '\x20', '\x01', '\x28', static_cast<char>(n)};
    std::string code = "program";
    PJRT_Program program{
        .code = code.data(), .code_size = code.size(), .format = "mlir", .format_size = 4};
    PJRT_Client_Compile_Args compile{.client = client,
                                     .program = &program,
                                     .compile_options = options.data(),
                                     .compile_options_size = options.size()};
    api->PJRT_Client_Compile(&compile);
    executable = compile.executable;
  }
  PJRT_Buffer* Put(PJRT_Device* device) {
    static constexpr float kValue = 1;
    static constexpr int64_t kDims[] = {1};
    PJRT_Client_BufferFromHostBuffer_Args put{.client = client,
                                              .data = &kValue,
                                              .type = PJRT_Buffer_Type_F32,
                                              .dims = kDims,
                                              .num_dims = 1,
                                              .device = device};
    api->PJRT_Client_BufferFromHostBuffer(&put);
    PJRT_Event_Destroy_Args destroy{.event = put.done_with_host_buffer};
    api->PJRT_Event_Destroy(&destroy);
    return put.buffer;
  }
  void Destroy(PJRT_Buffer* buffer) {
    PJRT_Buffer_Destroy_Args destroy{.buffer = buffer};
    api->PJRT_Buffer_Destroy(&destroy);
  }
  void Launch() {
    PJRT_ExecuteOptions options{.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE};
    PJRT_LoadedExecutable_Execute_Args args{.executable = executable,
                                            .options = &options,
                                            .argument_lists = input_lists.data(),
                                            .num_devices = n,
                                            .num_args = inputs[0].size(),
                                            .output_lists = output_lists.data(),
                                            .device_complete_events = events.data()};
    benchmark::DoNotOptimize(api->PJRT_LoadedExecutable_Execute(&args));
    for (size_t d = 0; d < n; ++d) {
      PJRT_Event_OnReady_Args ready{
          .event = events[d], .callback = [](PJRT_Error*, void*) {}, .user_arg = nullptr};
      api->PJRT_Event_OnReady(&ready);
      PJRT_Event_Destroy_Args destroy{.event = events[d]};
      api->PJRT_Event_Destroy(&destroy);
      Destroy(outputs[d]);
    }
  }

  const PJRT_Api* const api = Api();
  const size_t n;
  PJRT_Client* client = nullptr;
  PJRT_LoadedExecutable* executable = nullptr;
  std::vector<std::vector<PJRT_Buffer*>> inputs;
  std::vector<PJRT_Buffer*> outputs;
  std::vector<PJRT_Event*> events;
  std::vector<PJRT_Buffer* const*> input_lists;
  std::vector<PJRT_Buffer**> output_lists;
};

void BM_Execute(benchmark::State& state) {
  Launcher launcher(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  for (auto _ : state) launcher.Launch();
}
BENCHMARK(BM_Execute)->ArgNames({"devices", "arguments"})->ArgsProduct({{1, 8, 64}, {1, 10, 100}});

}  // namespace
}  // namespace shardway::pjrt_plugin
