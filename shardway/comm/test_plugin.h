// For tests and benchmarks: a PJRT plugin driven with as little as possible around it.
#pragma once

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt_c_api.h"
#include "shardway/base/raw_enum.h"
#include "shardway/collective/spec.h"
#include "shardway/comm/communicator.h"
#include "shardway/comm/run_id.h"

namespace shardway::comm {

// Dies with a message on any error: what uses it has nothing to go on with.
class TestPlugin {
 public:
  // $SHARDWAY_TEST_PLUGIN, or the CPU plugin of the project's Python environment.
  static std::string DefaultPath() {
    if (const char* path = std::getenv("SHARDWAY_TEST_PLUGIN")) return path;
    glob_t found{};
    ::glob(".venv/lib/python3.*/site-packages/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so", 0,
           nullptr, &found);
    std::string path = found.gl_pathc > 0 ? found.gl_pathv[0] : "";
    ::globfree(&found);
    return path;
  }

  void Register(std::string_view target, void* handler) {
    for (auto* e = api_->extension_start; e != nullptr; e = e->next) {
      if (RawEnum(e->type) != PJRT_Extension_Type_FFI) continue;
      RegisterArgs args{sizeof(RegisterArgs), target.data(), target.size(), handler, "Host", 4, 0};
      Check("register", reinterpret_cast<FfiExtension*>(e)->register_handler(&args));
      return;
    }
    Die("the plugin has no FFI extension");
  }

  // Loads the plugin, makes `devices` devices of XLA's, which the ordinals share in turn, and
  // registers the collective handler.
  TestPlugin(const std::string& path, int devices) {
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) Die("loading '" + path + "': " + ::dlerror());
    api_ = reinterpret_cast<const PJRT_Api* (*)()>(::dlsym(library, "GetPjrtApi"))();
    PJRT_Plugin_Initialize_Args initialize = Args<PJRT_Plugin_Initialize_Args>();
    Check("initialize", api_->PJRT_Plugin_Initialize(&initialize));
    Register(collective::kCustomCallTarget, CollectiveHandler());
    PJRT_NamedValue options[2] = {};
    options[0] = Option("cpu_device_count", PJRT_NamedValue_kInt64);
    options[0].int64_value = devices;
    options[1] = Option("asynchronous", PJRT_NamedValue_kBool);
    options[1].bool_value = false;
    auto create = Args<PJRT_Client_Create_Args>();
    create.create_options = options;
    create.num_options = 2;
    Check("create", api_->PJRT_Client_Create(&create));
    client_ = create.client;
    auto addressable = Args<PJRT_Client_AddressableDevices_Args>();
    addressable.client = client_;
    Check("devices", api_->PJRT_Client_AddressableDevices(&addressable));
    devices_.assign(addressable.addressable_devices,
                    addressable.addressable_devices + addressable.num_addressable_devices);
  }

  PJRT_LoadedExecutable* Compile(std::string text) {
    auto program = Args<PJRT_Program>();
    program.code = text.data();
    program.code_size = text.size();
    program.format = "mlir";
    program.format_size = 4;
    // executable_build_options{num_replicas 1, num_partitions 1}, compile_portable_executable.
    const std::string options("\x1a\x04\x20\x01\x28\x01\x20\x01", 8);
    auto compile = Args<PJRT_Client_Compile_Args>();
    compile.client = client_;
    compile.program = &program;
    compile.compile_options = options.data();
    compile.compile_options_size = options.size();
    Check("compile", api_->PJRT_Client_Compile(&compile));
    return compile.executable;
  }

  PJRT_Buffer* FromHost(int device, PJRT_Buffer_Type type, std::vector<int64_t> dims,
                        const void* data) {
    auto args = Args<PJRT_Client_BufferFromHostBuffer_Args>();
    args.client = client_;
    args.data = data;
    args.type = type;
    args.dims = dims.data();
    args.num_dims = dims.size();
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    args.device = devices_[device % devices_.size()];
    Check("upload", api_->PJRT_Client_BufferFromHostBuffer(&args));
    Await(args.done_with_host_buffer);
    return args.buffer;
  }

  void ToHost(PJRT_Buffer* buffer, void* data, size_t bytes) {
    auto args = Args<PJRT_Buffer_ToHostBuffer_Args>();
    args.src = buffer;
    args.dst = data;
    args.dst_size = bytes;
    Check("download", api_->PJRT_Buffer_ToHostBuffer(&args));
    Await(args.event);
  }

  void Free(PJRT_Buffer* buffer) {
    auto args = Args<PJRT_Buffer_Destroy_Args>();
    args.buffer = buffer;
    Check("free", api_->PJRT_Buffer_Destroy(&args));
  }

  // Blocks until the program, of one argument and one result, has ended. Its error in `*error`.
  PJRT_Buffer* Execute(PJRT_LoadedExecutable* executable, int device, int launch,
                       PJRT_Buffer* argument, std::string* error) {
    auto options = Args<PJRT_ExecuteOptions>();
    options.launch_id = RunIdOf(launch, device);
    PJRT_Buffer* arguments[1] = {argument};
    PJRT_Buffer* const* argument_lists[1] = {arguments};
    PJRT_Buffer* results[1] = {};
    PJRT_Buffer** result_lists[1] = {results};
    PJRT_Event* done[1] = {};
    auto args = Args<PJRT_LoadedExecutable_Execute_Args>();
    args.executable = executable;
    args.options = &options;
    args.argument_lists = argument_lists;
    args.num_devices = 1;
    args.num_args = 1;
    args.output_lists = result_lists;
    args.device_complete_events = done;
    args.execute_device = devices_[device % devices_.size()];
    *error = Message(api_->PJRT_LoadedExecutable_Execute(&args));
    if (!error->empty()) return nullptr;
    auto await = Args<PJRT_Event_Await_Args>();
    await.event = done[0];
    *error = Message(api_->PJRT_Event_Await(&await));
    auto destroy = Args<PJRT_Event_Destroy_Args>();
    destroy.event = done[0];
    api_->PJRT_Event_Destroy(&destroy);
    if (!error->empty()) {
      Free(results[0]);
      return nullptr;
    }
    return results[0];
  }

 private:
  template <typename T>
  static T Args() {
    T args;
    std::memset(&args, 0, sizeof(args));
    args.struct_size = sizeof(args);
    return args;
  }
  static PJRT_NamedValue Option(const char* name, PJRT_NamedValue_Type type) {
    auto option = Args<PJRT_NamedValue>();
    option.name = name;
    option.name_size = std::strlen(name);
    option.type = type;
    option.value_size = 1;
    return option;
  }
  [[noreturn]] static void Die(const std::string& message) {
    std::fprintf(stderr, "%s\n", message.c_str());
    std::abort();
  }
  std::string Message(PJRT_Error* error) {
    if (error == nullptr) return "";
    auto message = Args<PJRT_Error_Message_Args>();
    message.error = error;
    api_->PJRT_Error_Message(&message);
    std::string text(message.message, message.message_size);
    auto destroy = Args<PJRT_Error_Destroy_Args>();
    destroy.error = error;
    api_->PJRT_Error_Destroy(&destroy);
    return text.empty() ? "unknown error" : text;
  }
  void Check(const char* what, PJRT_Error* error) {
    if (std::string text = Message(error); !text.empty()) Die(std::string(what) + ": " + text);
  }
  void Await(PJRT_Event* event) {
    auto await = Args<PJRT_Event_Await_Args>();
    await.event = event;
    Check("await", api_->PJRT_Event_Await(&await));
    auto destroy = Args<PJRT_Event_Destroy_Args>();
    destroy.event = event;
    Check("await", api_->PJRT_Event_Destroy(&destroy));
  }

  // The FFI extension is newer than the header: these are its first members.
  struct RegisterArgs {
    size_t struct_size;
    const char* target;
    size_t target_size;
    void* handler;
    const char* platform;
    size_t platform_size;
    uint32_t traits;
  };
  struct FfiExtension {
    PJRT_Extension_Base base;
    void* type_id_register;
    void* user_data_add;
    PJRT_Error* (*register_handler)(RegisterArgs*);
  };
  const PJRT_Api* api_ = nullptr;
  PJRT_Client* client_ = nullptr;
  std::vector<PJRT_Device*> devices_;
};

}  // namespace shardway::comm
