// A PJRT plugin whose Execute does nothing: what a jit call costs in JAX and the C API alone, the
// floor under any plugin's cost (bench/client_cost.py). It has NULL_PLUGIN_DEVICES devices (8, at
// most 127); every program has one result, a float32[1] on each of its devices, and nobody can read
// it.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pjrt_c_api.h"

struct PJRT_Error {
  std::string message;
};

struct PJRT_Event {};  // always ready

struct PJRT_DeviceDescription {
  int id;
  std::string name;
};

struct PJRT_Memory {
  PJRT_Device* device;
  int id;
};

struct PJRT_Device {
  PJRT_DeviceDescription description;
  PJRT_Memory memory;
  PJRT_Memory* memories[1];
};

struct PJRT_TopologyDescription {
  std::vector<PJRT_DeviceDescription*> devices;
};

struct PJRT_Client {
  PJRT_TopologyDescription topology;
  std::vector<std::unique_ptr<PJRT_Device>> owned;
  std::vector<PJRT_Device*> devices;
  std::vector<PJRT_Memory*> memories;
};

struct PJRT_Buffer {
  PJRT_Device* device;
  bool deleted = false;
};

struct PJRT_Executable {};

struct PJRT_LoadedExecutable {
  std::vector<PJRT_Device*> devices;
  std::string assignment;  // xla.DeviceAssignmentProto, serialized
  bool deleted = false;
};

namespace {

constexpr char kPlatform[] = "null";
constexpr char kMemoryKind[] = "device";
constexpr int64_t kDims[] = {1};

int DeviceCount() {
  const char* value = std::getenv("NULL_PLUGIN_DEVICES");
  return value != nullptr ? std::atoi(value) : 8;
}

// What JAX may call and a null plugin has no answer for: the API's entries behind the version, all
// of them functions of a pointer to their arguments.
using Entry = PJRT_Error* (*)(void*);
constexpr size_t kEntries =
    (sizeof(PJRT_Api) - offsetof(PJRT_Api, PJRT_Error_Destroy)) / sizeof(Entry);

template <size_t kEntry>
PJRT_Error* Unimplemented(void*) {
  return new PJRT_Error{"the null plugin has no entry " + std::to_string(kEntry)};
}

template <size_t... kEntry>
void FillUnimplemented(PJRT_Api& api, std::index_sequence<kEntry...>) {
  const Entry entries[] = {Unimplemented<kEntry>...};
  std::memcpy(reinterpret_cast<char*>(&api) + offsetof(PJRT_Api, PJRT_Error_Destroy), entries,
              sizeof(entries));
}

// A string the way the API hands it out: a pointer and a size.
void Answer(const char* text, const char*& data, size_t& size) {
  data = text;
  size = std::strlen(text);
}

PJRT_Error* CreateClient(PJRT_Client_Create_Args* args) {
  auto* client = new PJRT_Client;
  for (int i = 0; i < DeviceCount(); ++i) {
    auto device = std::make_unique<PJRT_Device>();
    device->description = {i, "null:" + std::to_string(i)};
    device->memory = {device.get(), i};
    device->memories[0] = &device->memory;
    client->topology.devices.push_back(&device->description);
    client->devices.push_back(device.get());
    client->memories.push_back(&device->memory);
    client->owned.push_back(std::move(device));
  }
  args->client = client;
  return nullptr;
}

// One replica, partition i on device i: replica_count = 1, computation_count = 2 and for each
// computation = 3 its replica_device_ids = 1.
std::string SerializedAssignment(int devices) {
  std::string bytes = {0x08, 1, 0x10, static_cast<char>(devices)};
  for (int i = 0; i < devices; ++i) bytes += {0x1a, 3, 0x0a, 1, static_cast<char>(i)};
  return bytes;
}

PJRT_Error* Compile(PJRT_Client_Compile_Args* args) {
  const std::vector<PJRT_Device*>& devices = args->client->devices;
  args->executable =
      new PJRT_LoadedExecutable{devices, SerializedAssignment(static_cast<int>(devices.size()))};
  return nullptr;
}

PJRT_Error* Execute(PJRT_LoadedExecutable_Execute_Args* args) {
  for (size_t i = 0; i < args->num_devices; ++i) {
    args->output_lists[i][0] = new PJRT_Buffer{args->executable->devices[i]};
    if (args->device_complete_events != nullptr) args->device_complete_events[i] = new PJRT_Event;
  }
  return nullptr;
}

PJRT_Error* BufferFromHost(PJRT_Client_BufferFromHostBuffer_Args* args) {
  PJRT_Device* device = args->device;
  if (device == nullptr) device = args->memory->device;
  args->buffer = new PJRT_Buffer{device};
  args->done_with_host_buffer = new PJRT_Event;
  return nullptr;
}

// Set-up: devices, memories, the client.
void FillClient(PJRT_Api& api) {
  api.PJRT_Plugin_Initialize = [](PJRT_Plugin_Initialize_Args*) -> PJRT_Error* { return nullptr; };
  api.PJRT_Plugin_Attributes = [](PJRT_Plugin_Attributes_Args* args) -> PJRT_Error* {
    args->num_attributes = 0;
    return nullptr;
  };
  api.PJRT_Client_Create = CreateClient;
  api.PJRT_Client_Destroy = [](PJRT_Client_Destroy_Args* args) -> PJRT_Error* {
    delete args->client;
    return nullptr;
  };
  api.PJRT_Client_PlatformName = [](PJRT_Client_PlatformName_Args* args) -> PJRT_Error* {
    Answer(kPlatform, args->platform_name, args->platform_name_size);
    return nullptr;
  };
  api.PJRT_Client_PlatformVersion = [](PJRT_Client_PlatformVersion_Args* args) -> PJRT_Error* {
    Answer("0", args->platform_version, args->platform_version_size);
    return nullptr;
  };
  api.PJRT_Client_ProcessIndex = [](PJRT_Client_ProcessIndex_Args* args) -> PJRT_Error* {
    args->process_index = 0;
    return nullptr;
  };
  api.PJRT_Client_Devices = [](PJRT_Client_Devices_Args* args) -> PJRT_Error* {
    args->devices = args->client->devices.data();
    args->num_devices = args->client->devices.size();
    return nullptr;
  };
  api.PJRT_Client_AddressableDevices =
      [](PJRT_Client_AddressableDevices_Args* args) -> PJRT_Error* {
    args->addressable_devices = args->client->devices.data();
    args->num_addressable_devices = args->client->devices.size();
    return nullptr;
  };
  api.PJRT_Client_LookupDevice = [](PJRT_Client_LookupDevice_Args* args) -> PJRT_Error* {
    args->device = args->client->devices[args->id];
    return nullptr;
  };
  api.PJRT_Client_LookupAddressableDevice =
      [](PJRT_Client_LookupAddressableDevice_Args* args) -> PJRT_Error* {
    args->addressable_device = args->client->devices[args->local_hardware_id];
    return nullptr;
  };
  api.PJRT_Client_AddressableMemories =
      [](PJRT_Client_AddressableMemories_Args* args) -> PJRT_Error* {
    args->addressable_memories = args->client->memories.data();
    args->num_addressable_memories = args->client->memories.size();
    return nullptr;
  };
  api.PJRT_Client_Compile = Compile;
  api.PJRT_Client_BufferFromHostBuffer = BufferFromHost;
}

void FillDevices(PJRT_Api& api) {
  api.PJRT_DeviceDescription_Id = [](PJRT_DeviceDescription_Id_Args* args) -> PJRT_Error* {
    args->id = args->device_description->id;
    return nullptr;
  };
  api.PJRT_DeviceDescription_ProcessIndex =
      [](PJRT_DeviceDescription_ProcessIndex_Args* args) -> PJRT_Error* {
    args->process_index = 0;
    return nullptr;
  };
  api.PJRT_DeviceDescription_Attributes =
      [](PJRT_DeviceDescription_Attributes_Args* args) -> PJRT_Error* {
    args->num_attributes = 0;
    return nullptr;
  };
  api.PJRT_DeviceDescription_Kind = [](PJRT_DeviceDescription_Kind_Args* args) -> PJRT_Error* {
    Answer(kPlatform, args->device_kind, args->device_kind_size);
    return nullptr;
  };
  api.PJRT_DeviceDescription_DebugString =
      [](PJRT_DeviceDescription_DebugString_Args* args) -> PJRT_Error* {
    const std::string& name = args->device_description->name;
    Answer(name.c_str(), args->debug_string, args->debug_string_size);
    return nullptr;
  };
  api.PJRT_DeviceDescription_ToString =
      [](PJRT_DeviceDescription_ToString_Args* args) -> PJRT_Error* {
    const std::string& name = args->device_description->name;
    Answer(name.c_str(), args->to_string, args->to_string_size);
    return nullptr;
  };
  api.PJRT_Device_GetDescription = [](PJRT_Device_GetDescription_Args* args) -> PJRT_Error* {
    args->device_description = &args->device->description;
    return nullptr;
  };
  api.PJRT_Device_IsAddressable = [](PJRT_Device_IsAddressable_Args* args) -> PJRT_Error* {
    args->is_addressable = true;
    return nullptr;
  };
  api.PJRT_Device_LocalHardwareId = [](PJRT_Device_LocalHardwareId_Args* args) -> PJRT_Error* {
    args->local_hardware_id = args->device->description.id;
    return nullptr;
  };
  api.PJRT_Device_AddressableMemories =
      [](PJRT_Device_AddressableMemories_Args* args) -> PJRT_Error* {
    args->memories = args->device->memories;
    args->num_memories = 1;
    return nullptr;
  };
  api.PJRT_Device_DefaultMemory = [](PJRT_Device_DefaultMemory_Args* args) -> PJRT_Error* {
    args->memory = &args->device->memory;
    return nullptr;
  };
  api.PJRT_Memory_Id = [](PJRT_Memory_Id_Args* args) -> PJRT_Error* {
    args->id = args->memory->id;
    return nullptr;
  };
  api.PJRT_Memory_Kind = [](PJRT_Memory_Kind_Args* args) -> PJRT_Error* {
    Answer(kMemoryKind, args->kind, args->kind_size);
    return nullptr;
  };
  api.PJRT_Memory_Kind_Id = [](PJRT_Memory_Kind_Id_Args* args) -> PJRT_Error* {
    args->kind_id = 0;
    return nullptr;
  };
  api.PJRT_Memory_DebugString = [](PJRT_Memory_DebugString_Args* args) -> PJRT_Error* {
    Answer(kMemoryKind, args->debug_string, args->debug_string_size);
    return nullptr;
  };
  api.PJRT_Memory_ToString = [](PJRT_Memory_ToString_Args* args) -> PJRT_Error* {
    Answer(kMemoryKind, args->to_string, args->to_string_size);
    return nullptr;
  };
  api.PJRT_Memory_AddressableByDevices =
      [](PJRT_Memory_AddressableByDevices_Args* args) -> PJRT_Error* {
    args->devices = &args->memory->device;
    args->num_devices = 1;
    return nullptr;
  };
}

void FillTopology(PJRT_Api& api) {
  api.PJRT_Client_TopologyDescription =
      [](PJRT_Client_TopologyDescription_Args* args) -> PJRT_Error* {
    args->topology = &args->client->topology;
    return nullptr;
  };
  api.PJRT_TopologyDescription_PlatformName =
      [](PJRT_TopologyDescription_PlatformName_Args* args) -> PJRT_Error* {
    Answer(kPlatform, args->platform_name, args->platform_name_size);
    return nullptr;
  };
  api.PJRT_TopologyDescription_PlatformVersion =
      [](PJRT_TopologyDescription_PlatformVersion_Args* args) -> PJRT_Error* {
    Answer("0", args->platform_version, args->platform_version_size);
    return nullptr;
  };
  api.PJRT_TopologyDescription_GetDeviceDescriptions =
      [](PJRT_TopologyDescription_GetDeviceDescriptions_Args* args) -> PJRT_Error* {
    args->descriptions = args->topology->devices.data();
    args->num_descriptions = args->topology->devices.size();
    return nullptr;
  };
  api.PJRT_TopologyDescription_Attributes =
      [](PJRT_TopologyDescription_Attributes_Args* args) -> PJRT_Error* {
    args->num_attributes = 0;
    return nullptr;
  };
}

void FillPrograms(PJRT_Api& api) {
  api.PJRT_Executable_Destroy = [](PJRT_Executable_Destroy_Args* args) -> PJRT_Error* {
    delete args->executable;
    return nullptr;
  };
  api.PJRT_Executable_Name = [](PJRT_Executable_Name_Args* args) -> PJRT_Error* {
    Answer("null", args->executable_name, args->executable_name_size);
    return nullptr;
  };
  api.PJRT_Executable_NumReplicas = [](PJRT_Executable_NumReplicas_Args* args) -> PJRT_Error* {
    args->num_replicas = 1;
    return nullptr;
  };
  api.PJRT_Executable_NumPartitions = [](PJRT_Executable_NumPartitions_Args* args) -> PJRT_Error* {
    args->num_partitions = DeviceCount();
    return nullptr;
  };
  api.PJRT_Executable_NumOutputs = [](PJRT_Executable_NumOutputs_Args* args) -> PJRT_Error* {
    args->num_outputs = 1;
    return nullptr;
  };
  api.PJRT_Executable_OutputElementTypes =
      [](PJRT_Executable_OutputElementTypes_Args* args) -> PJRT_Error* {
    static PJRT_Buffer_Type types[] = {PJRT_Buffer_Type_F32};
    args->output_types = types;
    args->num_output_types = 1;
    return nullptr;
  };
  api.PJRT_Executable_OutputDimensions =
      [](PJRT_Executable_OutputDimensions_Args* args) -> PJRT_Error* {
    static size_t ranks[] = {1};
    args->num_outputs = 1;
    args->dims = kDims;
    args->dim_sizes = ranks;
    return nullptr;
  };
  api.PJRT_Executable_OutputMemoryKinds =
      [](PJRT_Executable_OutputMemoryKinds_Args* args) -> PJRT_Error* {
    static const char* kinds[] = {kMemoryKind};
    static const size_t sizes[] = {sizeof(kMemoryKind) - 1};
    args->num_outputs = 1;
    args->memory_kinds = kinds;
    args->memory_kind_sizes = sizes;
    return nullptr;
  };
  api.PJRT_Executable_Fingerprint = [](PJRT_Executable_Fingerprint_Args* args) -> PJRT_Error* {
    Answer("null", args->executable_fingerprint, args->executable_fingerprint_size);
    return nullptr;
  };
  api.PJRT_LoadedExecutable_Destroy = [](PJRT_LoadedExecutable_Destroy_Args* args) -> PJRT_Error* {
    delete args->executable;
    return nullptr;
  };
  api.PJRT_LoadedExecutable_GetExecutable =
      [](PJRT_LoadedExecutable_GetExecutable_Args* args) -> PJRT_Error* {
    args->executable = new PJRT_Executable;
    return nullptr;
  };
  api.PJRT_LoadedExecutable_GetDeviceAssignment =
      [](PJRT_LoadedExecutable_GetDeviceAssignment_Args* args) -> PJRT_Error* {
    args->serialized_bytes = args->executable->assignment.data();
    args->serialized_bytes_size = args->executable->assignment.size();
    args->serialized_device_assignment = nullptr;
    args->serialized_device_assignment_deleter = [](PJRT_DeviceAssignmentSerialized*) {};
    return nullptr;
  };
  api.PJRT_LoadedExecutable_AddressableDevices =
      [](PJRT_LoadedExecutable_AddressableDevices_Args* args) -> PJRT_Error* {
    args->addressable_devices = args->executable->devices.data();
    args->num_addressable_devices = args->executable->devices.size();
    return nullptr;
  };
  api.PJRT_LoadedExecutable_Delete = [](PJRT_LoadedExecutable_Delete_Args* args) -> PJRT_Error* {
    args->executable->deleted = true;
    return nullptr;
  };
  api.PJRT_LoadedExecutable_IsDeleted =
      [](PJRT_LoadedExecutable_IsDeleted_Args* args) -> PJRT_Error* {
    args->is_deleted = args->executable->deleted;
    return nullptr;
  };
  api.PJRT_LoadedExecutable_Execute = Execute;
}

void FillBuffers(PJRT_Api& api) {
  api.PJRT_Buffer_Destroy = [](PJRT_Buffer_Destroy_Args* args) -> PJRT_Error* {
    delete args->buffer;
    return nullptr;
  };
  api.PJRT_Buffer_ElementType = [](PJRT_Buffer_ElementType_Args* args) -> PJRT_Error* {
    args->type = PJRT_Buffer_Type_F32;
    return nullptr;
  };
  api.PJRT_Buffer_Dimensions = [](PJRT_Buffer_Dimensions_Args* args) -> PJRT_Error* {
    args->dims = kDims;
    args->num_dims = 1;
    return nullptr;
  };
  api.PJRT_Buffer_DynamicDimensionIndices =
      [](PJRT_Buffer_DynamicDimensionIndices_Args* args) -> PJRT_Error* {
    args->num_dynamic_dims = 0;
    return nullptr;
  };
  api.PJRT_Buffer_Device = [](PJRT_Buffer_Device_Args* args) -> PJRT_Error* {
    args->device = args->buffer->device;
    return nullptr;
  };
  api.PJRT_Buffer_Memory = [](PJRT_Buffer_Memory_Args* args) -> PJRT_Error* {
    args->memory = &args->buffer->device->memory;
    return nullptr;
  };
  api.PJRT_Buffer_Delete = [](PJRT_Buffer_Delete_Args* args) -> PJRT_Error* {
    args->buffer->deleted = true;
    return nullptr;
  };
  api.PJRT_Buffer_IsDeleted = [](PJRT_Buffer_IsDeleted_Args* args) -> PJRT_Error* {
    args->is_deleted = args->buffer->deleted;
    return nullptr;
  };
  api.PJRT_Buffer_IsOnCpu = [](PJRT_Buffer_IsOnCpu_Args* args) -> PJRT_Error* {
    args->is_on_cpu = false;
    return nullptr;
  };
  api.PJRT_Buffer_ReadyEvent = [](PJRT_Buffer_ReadyEvent_Args* args) -> PJRT_Error* {
    args->event = new PJRT_Event;
    return nullptr;
  };
}

void FillErrorsAndEvents(PJRT_Api& api) {
  api.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args* args) { delete args->error; };
  api.PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    Answer(args->error->message.c_str(), args->message, args->message_size);
  };
  api.PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args* args) -> PJRT_Error* {
    args->code = PJRT_Error_Code_UNIMPLEMENTED;
    return nullptr;
  };
  api.PJRT_Event_Destroy = [](PJRT_Event_Destroy_Args* args) -> PJRT_Error* {
    delete args->event;
    return nullptr;
  };
  api.PJRT_Event_IsReady = [](PJRT_Event_IsReady_Args* args) -> PJRT_Error* {
    args->is_ready = true;
    return nullptr;
  };
  api.PJRT_Event_Error = [](PJRT_Event_Error_Args*) -> PJRT_Error* { return nullptr; };
  api.PJRT_Event_Await = [](PJRT_Event_Await_Args*) -> PJRT_Error* { return nullptr; };
  api.PJRT_Event_OnReady = [](PJRT_Event_OnReady_Args* args) -> PJRT_Error* {
    args->callback(nullptr, args->user_arg);
    return nullptr;
  };
}

PJRT_Api MakeApi() {
  PJRT_Api api{};
  FillUnimplemented(api, std::make_index_sequence<kEntries>());
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version = {PJRT_Api_Version_STRUCT_SIZE, nullptr, PJRT_API_MAJOR, PJRT_API_MINOR};
  FillErrorsAndEvents(api);
  FillClient(api);
  FillDevices(api);
  FillTopology(api);
  FillPrograms(api);
  FillBuffers(api);
  return api;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = MakeApi();
  return &api;
}
