#include "shardway/pjrt_plugin/api.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shardway/base/logging.h"
#include "shardway/pjrt_plugin/async_transfer.h"
#include "shardway/pjrt_plugin/buffer.h"
#include "shardway/pjrt_plugin/client.h"
#include "shardway/pjrt_plugin/device.h"
#include "shardway/pjrt_plugin/error.h"
#include "shardway/pjrt_plugin/event.h"
#include "shardway/pjrt_plugin/executable.h"
#include "shardway/pjrt_plugin/extensions.h"
#include "shardway/pjrt_plugin/external_reference.h"
#include "shardway/pjrt_plugin/host_transfer.h"
#include "shardway/pjrt_plugin/memory.h"
#include "shardway/pjrt_plugin/named_value.h"
#include "shardway/pjrt_plugin/topology_description.h"

namespace shardway::pjrt_plugin {
namespace {

PJRT_Error* PluginInitialize(PJRT_Plugin_Initialize_Args*) {
  InitLogging("client");  // to stderr: the script's standard output stays its own
  return nullptr;
}

// JAX sends programs at the lower of its own StableHLO version and this one.
PJRT_Error* PluginAttributes(PJRT_Plugin_Attributes_Args* args) {
  static constexpr int64_t kCurrent[] = {1, 17, 0};
  static constexpr int64_t kMinimum[] = {1, 13, 7};
  static const auto* const attributes = new std::vector<PJRT_NamedValue>{
      NamedInt("xla_version", 2),
      NamedInts("stablehlo_current_version", kCurrent),
      NamedInts("stablehlo_minimum_version", kMinimum),
  };
  args->attributes = attributes->data();
  args->num_attributes = attributes->size();
  return nullptr;
}

PJRT_Error* Unimplemented(absl::string_view function) {
  return ToError(absl::UnimplementedError(
      absl::StrCat(function, " is not implemented by the Shardway plugin")));
}

// jaxlib asks for shardings only from 0.91 on and for the layouts of parameters from 0.93 on, which
// is newer than the header that we build against. The functions added between the two stand behind
// the header's table, most refusing; `struct_size` stays the header's, since jaxlib looks there for
// functions that are newer still.
constexpr int kMinorVersion = 93;
constexpr int kNewerFunctions = 16;  // at least as many as were added
constexpr int kDeviceGetAttributes = 10;

struct Table {
  PJRT_Api api;
  PJRT_Error* (*newer[kNewerFunctions])(void*);
};

PJRT_Api MakeApi() {
  PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.extension_start = LayoutsExtension(ShardingsExtension(FfiExtension(nullptr)));
  api.pjrt_api_version = {.struct_size = PJRT_Api_Version_STRUCT_SIZE,
                          .extension_start = nullptr,
                          .major_version = PJRT_API_MAJOR,
                          .minor_version = kMinorVersion};

  api.PJRT_Error_Destroy = ErrorDestroy;
  api.PJRT_Error_Message = ErrorMessage;
  api.PJRT_Error_GetCode = ErrorGetCode;

  api.PJRT_Plugin_Initialize = PluginInitialize;
  api.PJRT_Plugin_Attributes = PluginAttributes;

  api.PJRT_Event_Destroy = EventDestroy;
  api.PJRT_Event_IsReady = EventIsReady;
  api.PJRT_Event_Error = EventError;
  api.PJRT_Event_Await = EventAwait;
  api.PJRT_Event_OnReady = EventOnReady;

  api.PJRT_Client_Create = ClientCreate;
  api.PJRT_Client_Destroy = ClientDestroy;
  api.PJRT_Client_PlatformName = ClientPlatformName;
  api.PJRT_Client_ProcessIndex = ClientProcessIndex;
  api.PJRT_Client_PlatformVersion = ClientPlatformVersion;
  api.PJRT_Client_Devices = ClientDevices;
  api.PJRT_Client_AddressableDevices = ClientAddressableDevices;
  api.PJRT_Client_LookupDevice = ClientLookupDevice;
  api.PJRT_Client_LookupAddressableDevice = ClientLookupAddressableDevice;
  api.PJRT_Client_AddressableMemories = ClientAddressableMemories;
  api.PJRT_Client_Compile = ClientCompile;
  api.PJRT_Client_DefaultDeviceAssignment = ClientDefaultDeviceAssignment;
  api.PJRT_Client_BufferFromHostBuffer = ClientBufferFromHostBuffer;
  api.PJRT_Client_TopologyDescription = ClientTopologyDescription;

  api.PJRT_DeviceDescription_Id = DeviceDescriptionId;
  api.PJRT_DeviceDescription_ProcessIndex = DeviceDescriptionProcessIndex;
  api.PJRT_DeviceDescription_Attributes = DeviceDescriptionAttributes;
  api.PJRT_DeviceDescription_Kind = DeviceDescriptionKind;
  api.PJRT_DeviceDescription_DebugString = DeviceDescriptionDebugString;
  api.PJRT_DeviceDescription_ToString = DeviceDescriptionToString;

  api.PJRT_Device_GetDescription = DeviceGetDescription;
  api.PJRT_Device_IsAddressable = DeviceIsAddressable;
  api.PJRT_Device_LocalHardwareId = DeviceLocalHardwareId;
  api.PJRT_Device_AddressableMemories = DeviceAddressableMemories;
  api.PJRT_Device_DefaultMemory = DeviceDefaultMemory;
  api.PJRT_Device_MemoryStats = DeviceMemoryStats;

  api.PJRT_Memory_Id = MemoryId;
  api.PJRT_Memory_Kind = MemoryKind;
  api.PJRT_Memory_Kind_Id = MemoryKindId;
  api.PJRT_Memory_DebugString = MemoryDebugString;
  api.PJRT_Memory_ToString = MemoryToString;
  api.PJRT_Memory_AddressableByDevices = MemoryAddressableByDevices;

  api.PJRT_Executable_Destroy = ExecutableDestroy;
  api.PJRT_Executable_Name = ExecutableName;
  api.PJRT_Executable_NumReplicas = ExecutableNumReplicas;
  api.PJRT_Executable_NumPartitions = ExecutableNumPartitions;
  api.PJRT_Executable_NumOutputs = ExecutableNumOutputs;
  api.PJRT_Executable_SizeOfGeneratedCodeInBytes = ExecutableSizeOfGeneratedCode;
  api.PJRT_Executable_GetCostAnalysis = ExecutableGetCostAnalysis;
  api.PJRT_Executable_GetCompiledMemoryStats = ExecutableGetCompiledMemoryStats;
  api.PJRT_Executable_OutputElementTypes = ExecutableOutputElementTypes;
  api.PJRT_Executable_OutputDimensions = ExecutableOutputDimensions;
  api.PJRT_Executable_OutputMemoryKinds = ExecutableOutputMemoryKinds;
  api.PJRT_Executable_OptimizedProgram = ExecutableOptimizedProgram;
  api.PJRT_Executable_Fingerprint = ExecutableFingerprint;
  api.PJRT_Executable_Serialize = ExecutableSerialize;
  api.PJRT_Executable_DeserializeAndLoad = ExecutableDeserializeAndLoad;

  api.PJRT_LoadedExecutable_Destroy = LoadedExecutableDestroy;
  api.PJRT_LoadedExecutable_GetExecutable = LoadedExecutableGetExecutable;
  api.PJRT_LoadedExecutable_GetDeviceAssignment = LoadedExecutableGetDeviceAssignment;
  api.PJRT_LoadedExecutable_AddressableDevices = LoadedExecutableAddressableDevices;
  api.PJRT_LoadedExecutable_Delete = LoadedExecutableDelete;
  api.PJRT_LoadedExecutable_IsDeleted = LoadedExecutableIsDeleted;
  api.PJRT_LoadedExecutable_Execute = LoadedExecutableExecute;
  api.PJRT_LoadedExecutable_Fingerprint = LoadedExecutableFingerprint;
  api.PJRT_ExecuteContext_Create = ExecuteContextCreate;
  api.PJRT_ExecuteContext_Destroy = ExecuteContextDestroy;

  api.PJRT_Buffer_Destroy = BufferDestroy;
  api.PJRT_Buffer_ElementType = BufferElementType;
  api.PJRT_Buffer_Dimensions = BufferDimensions;
  api.PJRT_Buffer_UnpaddedDimensions = BufferUnpaddedDimensions;
  api.PJRT_Buffer_DynamicDimensionIndices = BufferDynamicDimensionIndices;
  api.PJRT_Buffer_GetMemoryLayout = BufferGetMemoryLayout;
  api.PJRT_Buffer_OnDeviceSizeInBytes = BufferOnDeviceSizeInBytes;
  api.PJRT_Buffer_Device = BufferDevice;
  api.PJRT_Buffer_Memory = BufferMemory;
  api.PJRT_Buffer_Delete = BufferDelete;
  api.PJRT_Buffer_IsDeleted = BufferIsDeleted;
  api.PJRT_Buffer_CopyToDevice = BufferCopyToDevice;
  api.PJRT_Buffer_CopyToMemory = BufferCopyToMemory;
  api.PJRT_Buffer_ToHostBuffer = BufferToHostBuffer;
  api.PJRT_Buffer_IsOnCpu = BufferIsOnCpu;
  api.PJRT_Buffer_ReadyEvent = BufferReadyEvent;
  api.PJRT_Buffer_IncreaseExternalReferenceCount = BufferIncreaseExternalReferenceCount;
  api.PJRT_Buffer_DecreaseExternalReferenceCount = BufferDecreaseExternalReferenceCount;
  api.PJRT_Buffer_OpaqueDeviceMemoryDataPointer = BufferOpaqueDeviceMemoryDataPointer;
  api.PJRT_Buffer_UnsafePointer = BufferUnsafePointer;

  api.PJRT_Client_CreateBuffersForAsyncHostToDevice = ClientCreateBuffersForAsyncHostToDevice;
  api.PJRT_AsyncHostToDeviceTransferManager_Destroy = TransferManagerDestroy;
  api.PJRT_AsyncHostToDeviceTransferManager_TransferData = TransferManagerTransferData;
  api.PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer = TransferManagerRetrieveBuffer;
  api.PJRT_AsyncHostToDeviceTransferManager_Device = TransferManagerDevice;
  api.PJRT_AsyncHostToDeviceTransferManager_BufferCount = TransferManagerBufferCount;
  api.PJRT_AsyncHostToDeviceTransferManager_BufferSize = TransferManagerBufferSize;
  api.PJRT_AsyncHostToDeviceTransferManager_SetBufferError = TransferManagerSetBufferError;
  api.PJRT_AsyncHostToDeviceTransferManager_AddMetadata = TransferManagerAddMetadata;

  api.PJRT_TopologyDescription_Destroy = TopologyDestroy;
  api.PJRT_TopologyDescription_PlatformName = TopologyPlatformName;
  api.PJRT_TopologyDescription_PlatformVersion = TopologyPlatformVersion;
  api.PJRT_TopologyDescription_GetDeviceDescriptions = TopologyGetDeviceDescriptions;
  api.PJRT_TopologyDescription_Serialize = TopologySerialize;
  api.PJRT_TopologyDescription_Attributes = TopologyAttributes;

#define SHARDWAY_PJRT_UNIMPLEMENTED(name) \
  api.name = [](name##_Args*) { return Unimplemented(#name); }

  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_Client_UpdateGlobalProcessInfo);
  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_Client_CreateViewOfDeviceBuffer);
  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_Client_CreateUninitializedBuffer);
  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_Client_CreateAliasBuffer);
  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_Client_FulfillAliasBuffer);
  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_Client_DmaMap);
  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_Client_DmaUnmap);
  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_Buffer_CopyRawToHost);
  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_CopyToDeviceStream_Destroy);
  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_CopyToDeviceStream_AddChunk);
  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_CopyToDeviceStream_TotalBytes);
  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_CopyToDeviceStream_GranuleSize);
  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_CopyToDeviceStream_CurrentBytes);
  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_TopologyDescription_Create);
  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_TopologyDescription_Deserialize);
  SHARDWAY_PJRT_UNIMPLEMENTED(PJRT_Compile);
#undef SHARDWAY_PJRT_UNIMPLEMENTED
  return api;
}

template <int... kIndices>
void RefuseNewer(Table& table, std::integer_sequence<int, kIndices...>) {
  ((table.newer[kIndices] =
        [](void*) {
          return Unimplemented(absl::StrCat("function ", kIndices, " after API 0.81"));
        }),
   ...);
}

}  // namespace

const PJRT_Api* Api() {
  static const Table table = [] {
    Table made{.api = MakeApi(), .newer = {}};
    RefuseNewer(made, std::make_integer_sequence<int, kNewerFunctions>());
    made.newer[kDeviceGetAttributes] = DeviceGetAttributes;
    return made;
  }();
  return &table.api;
}

}  // namespace shardway::pjrt_plugin
