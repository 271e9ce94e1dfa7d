// Calls the plugin through its C API, on a fake session of 2 islands x 2 devices.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "shardway/pjrt_plugin/api.h"
#include "shardway/pjrt_plugin/cluster.h"
#include "shardway/pjrt_plugin/fake_session.h"

namespace shardway::pjrt_plugin {

class ApiTest : public ::testing::Test {
 public:
  ApiTest() {
    SetSessionFactory([this]() -> absl::StatusOr<std::unique_ptr<client::Session>> {
      return std::make_unique<FakeSession>(log, 2, 2);
    });
    PJRT_Client_Create_Args create{.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE};
    EXPECT_EQ(Code(api->PJRT_Client_Create(&create)), absl::StatusCode::kOk);
    client = create.client;
    PJRT_Client_Devices_Args list{.struct_size = PJRT_Client_Devices_Args_STRUCT_SIZE,
                                  .client = client};
    EXPECT_EQ(Code(api->PJRT_Client_Devices(&list)), absl::StatusCode::kOk);
    devices.assign(list.devices, list.devices + list.num_devices);
  }
  ~ApiTest() override {
    PJRT_Client_Destroy_Args destroy{.struct_size = PJRT_Client_Destroy_Args_STRUCT_SIZE,
                                     .client = client};
    api->PJRT_Client_Destroy(&destroy);
    SetSessionFactory(nullptr);
  }

  // Consumes the error; its message is in `message` afterwards.
  absl::StatusCode Code(PJRT_Error* error) {
    if (error == nullptr) return absl::StatusCode::kOk;
    PJRT_Error_Message_Args text{.struct_size = PJRT_Error_Message_Args_STRUCT_SIZE,
                                 .error = error};
    api->PJRT_Error_Message(&text);
    message.assign(text.message, text.message_size);
    PJRT_Error_GetCode_Args code{.struct_size = PJRT_Error_GetCode_Args_STRUCT_SIZE,
                                 .error = error};
    api->PJRT_Error_GetCode(&code);
    PJRT_Error_Destroy_Args destroy{.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE,
                                    .error = error};
    api->PJRT_Error_Destroy(&destroy);
    return static_cast<absl::StatusCode>(code.code);
  }

  struct PutOptions {
    std::vector<int64_t> strides;
    PJRT_HostBufferSemantics semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
    PJRT_Event** done = nullptr;  // kept by the test
  };
  PJRT_Buffer* Put(const void* data, std::vector<int64_t> dims, int device) {
    return Put(data, std::move(dims), device, PutOptions());
  }
  PJRT_Buffer* Put(const void* data, std::vector<int64_t> dims, int device,
                   const PutOptions& options) {
    PJRT_Client_BufferFromHostBuffer_Args args{
        .struct_size = PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE,
        .client = client,
        .data = data,
        .type = PJRT_Buffer_Type_F32,
        .dims = dims.data(),
        .num_dims = dims.size(),
        .byte_strides = options.strides.data(),
        .num_byte_strides = options.strides.size(),
        .host_buffer_semantics = options.semantics,
        .device = devices[device]};
    EXPECT_EQ(Code(api->PJRT_Client_BufferFromHostBuffer(&args)), absl::StatusCode::kOk) << message;
    if (options.done != nullptr) {
      *options.done = args.done_with_host_buffer;
    } else {
      Destroy(args.done_with_host_buffer);
    }
    return args.buffer;
  }
  std::vector<PJRT_Buffer*> PutOnAll(const void* data, std::vector<int64_t> dims) {
    std::vector<PJRT_Buffer*> buffers;
    for (size_t d = 0; d < devices.size(); ++d) {
      buffers.push_back(Put(data, dims, static_cast<int>(d)));
    }
    return buffers;
  }

  PJRT_Buffer* CopyTo(PJRT_Buffer* buffer, int device, int memory = 0) {
    PJRT_Device_AddressableMemories_Args memories{
        .struct_size = PJRT_Device_AddressableMemories_Args_STRUCT_SIZE, .device = devices[device]};
    api->PJRT_Device_AddressableMemories(&memories);
    PJRT_Buffer_CopyToMemory_Args args{.struct_size = PJRT_Buffer_CopyToMemory_Args_STRUCT_SIZE,
                                       .buffer = buffer,
                                       .dst_memory = memories.memories[memory]};
    EXPECT_EQ(Code(api->PJRT_Buffer_CopyToMemory(&args)), absl::StatusCode::kOk) << message;
    return args.dst_buffer;
  }

  absl::StatusCode Read(PJRT_Buffer* buffer, void* destination, size_t size,
                        PJRT_Buffer_MemoryLayout* layout = nullptr) {
    PJRT_Buffer_ToHostBuffer_Args args{.struct_size = PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE,
                                       .src = buffer,
                                       .host_layout = layout,
                                       .dst = destination,
                                       .dst_size = size};
    if (const auto code = Code(api->PJRT_Buffer_ToHostBuffer(&args));
        code != absl::StatusCode::kOk) {
      return code;
    }
    const auto code = Await(args.event);
    Destroy(args.event);
    return code;
  }

  absl::StatusCode Await(PJRT_Event* event) {
    PJRT_Event_Await_Args args{.struct_size = PJRT_Event_Await_Args_STRUCT_SIZE, .event = event};
    return Code(api->PJRT_Event_Await(&args));
  }
  bool IsReady(PJRT_Event* event) {
    PJRT_Event_IsReady_Args args{.struct_size = PJRT_Event_IsReady_Args_STRUCT_SIZE,
                                 .event = event};
    EXPECT_EQ(Code(api->PJRT_Event_IsReady(&args)), absl::StatusCode::kOk);
    return args.is_ready;
  }
  PJRT_Event* Ready(PJRT_Buffer* buffer) {
    PJRT_Buffer_ReadyEvent_Args args{.struct_size = PJRT_Buffer_ReadyEvent_Args_STRUCT_SIZE,
                                     .buffer = buffer};
    EXPECT_EQ(Code(api->PJRT_Buffer_ReadyEvent(&args)), absl::StatusCode::kOk);
    return args.event;
  }
  bool IsDeleted(PJRT_Buffer* buffer) {
    PJRT_Buffer_IsDeleted_Args args{.struct_size = PJRT_Buffer_IsDeleted_Args_STRUCT_SIZE,
                                    .buffer = buffer};
    EXPECT_EQ(Code(api->PJRT_Buffer_IsDeleted(&args)), absl::StatusCode::kOk);
    return args.is_deleted;
  }
  void Delete(PJRT_Buffer* buffer) {
    PJRT_Buffer_Delete_Args args{.struct_size = PJRT_Buffer_Delete_Args_STRUCT_SIZE,
                                 .buffer = buffer};
    EXPECT_EQ(Code(api->PJRT_Buffer_Delete(&args)), absl::StatusCode::kOk);
  }
  void Destroy(PJRT_Event* event) {
    PJRT_Event_Destroy_Args args{.struct_size = PJRT_Event_Destroy_Args_STRUCT_SIZE,
                                 .event = event};
    api->PJRT_Event_Destroy(&args);
  }
  void Destroy(PJRT_Buffer* buffer) {
    PJRT_Buffer_Destroy_Args args{.struct_size = PJRT_Buffer_Destroy_Args_STRUCT_SIZE,
                                  .buffer = buffer};
    api->PJRT_Buffer_Destroy(&args);
  }
  void Destroy(const std::vector<PJRT_Buffer*>& buffers) {
    for (PJRT_Buffer* buffer : buffers) Destroy(buffer);
  }

  // A program on all four devices whose parameters and results are f32[2] per device.
  PJRT_LoadedExecutable* Compile(int parameters, int results, std::vector<int> donated = {}) {
    const client::Boundary boundary{.element = ElementType::kF32,
                                    .global_dims = {8},
                                    .local_dims = {2},
                                    .op_sharding = "sharding"};
    log->next_program = {.name = "jit_f", .text = "module @jit_f {}"};
    log->next_program.parameters.assign(parameters, boundary);
    log->next_program.results.assign(results, boundary);
    for (const int d : donated) log->next_program.parameters[d].donated = true;
    EXPECT_EQ(CompileText("program"), absl::StatusCode::kOk) << message;
    return compiled;
  }
  absl::StatusCode CompileText(std::string text);
  void Destroy(PJRT_LoadedExecutable* executable) {
    PJRT_LoadedExecutable_Destroy_Args args{
        .struct_size = PJRT_LoadedExecutable_Destroy_Args_STRUCT_SIZE, .executable = executable};
    EXPECT_EQ(Code(api->PJRT_LoadedExecutable_Destroy(&args)), absl::StatusCode::kOk);
  }

  struct Launched {
    absl::StatusCode code = absl::StatusCode::kOk;
    std::vector<std::vector<PJRT_Buffer*>> results;  // [result][device]
    std::vector<PJRT_Event*> events;
  };
  // `arguments`: [argument][device]
  Launched Execute(PJRT_LoadedExecutable* executable,
                   const std::vector<std::vector<PJRT_Buffer*>>& arguments, size_t num_results,
                   std::vector<int64_t> non_donatable = {}) {
    const size_t n = devices.size();
    std::vector<std::vector<PJRT_Buffer*>> inputs(n), outputs(n);
    std::vector<PJRT_Buffer* const*> input_lists;
    std::vector<PJRT_Buffer**> output_lists;
    for (size_t d = 0; d < n; ++d) {
      for (const auto& argument : arguments) inputs[d].push_back(argument[d]);
      outputs[d].resize(num_results);
      input_lists.push_back(inputs[d].data());
      output_lists.push_back(outputs[d].data());
    }
    Launched launched;
    launched.events.resize(n);
    PJRT_ExecuteOptions options{.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE,
                                .non_donatable_input_indices = non_donatable.data(),
                                .num_non_donatable_input_indices = non_donatable.size()};
    PJRT_LoadedExecutable_Execute_Args args{
        .struct_size = PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE,
        .executable = executable,
        .options = &options,
        .argument_lists = input_lists.data(),
        .num_devices = n,
        .num_args = arguments.size(),
        .output_lists = output_lists.data(),
        .device_complete_events = launched.events.data()};
    launched.code = Code(api->PJRT_LoadedExecutable_Execute(&args));
    if (launched.code != absl::StatusCode::kOk) return launched;
    for (size_t r = 0; r < num_results; ++r) {
      auto& result = launched.results.emplace_back();
      for (size_t d = 0; d < n; ++d) result.push_back(outputs[d][r]);
    }
    return launched;
  }
  void Destroy(const Launched& launched) {
    for (PJRT_Event* event : launched.events) Destroy(event);
    for (const auto& result : launched.results) Destroy(result);
  }

  const std::shared_ptr<FakeSessionLog> log = std::make_shared<FakeSessionLog>();
  const PJRT_Api* const api = Api();
  PJRT_Client* client = nullptr;
  std::vector<PJRT_Device*> devices;
  PJRT_LoadedExecutable* compiled = nullptr;
  std::string message;
};

inline absl::StatusCode ApiTest::CompileText(std::string text) {
  // executable_build_options { num_replicas: 1 num_partitions: 4 }, as XLA serializes them.
  const std::string options = "\x1a\x04\x20\x01\x28\x04";
  const std::string format = "mlir";
  PJRT_Program program{.struct_size = PJRT_Program_STRUCT_SIZE,
                       .code = text.data(),
                       .code_size = text.size(),
                       .format = format.data(),
                       .format_size = format.size()};
  PJRT_Client_Compile_Args args{.struct_size = PJRT_Client_Compile_Args_STRUCT_SIZE,
                                .client = client,
                                .program = &program,
                                .compile_options = options.data(),
                                .compile_options_size = options.size()};
  const auto code = Code(api->PJRT_Client_Compile(&args));
  compiled = args.executable;
  return code;
}

}  // namespace shardway::pjrt_plugin
