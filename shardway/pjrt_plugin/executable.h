// Compiled programs: what JAX asks about one, and (execute.cc) its launch.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pjrt_c_api.h"
#include "shardway/client/session.h"
#include "shardway/pjrt_plugin/placement.h"
#include "shardway/pjrt_plugin/shard_shape.h"

struct PJRT_Layouts_MemoryLayout;  // of the Layouts extension

namespace shardway::pjrt_plugin {

// Shared by a loaded executable and the executables got from it; never changes.
struct ProgramInfo {
  PJRT_Client* client = nullptr;
  client::Program program;
  client::CompileOptions options;
  std::string artifact;
  std::string fingerprint;

  const Placement* placement = nullptr;  // of the program's devices, in logical order
  std::vector<PJRT_Device*> devices;
  std::vector<ShardShapeRef> result_shapes;
  std::vector<const Placement*> result_placements;
  std::vector<uint32_t> donated;  // parameters, ascending

  // The forms in which the API wants to be answered.
  std::vector<PJRT_Buffer_Type> output_types;
  std::vector<int64_t> output_dims;
  std::vector<size_t> output_ranks;
  std::vector<const char*> output_memory_kinds;
  std::vector<size_t> output_memory_kind_sizes;
  std::vector<PJRT_NamedValue> cost;
  std::string device_assignment;
  std::vector<PJRT_Layouts_MemoryLayout*> parameter_layouts, result_layouts;
  std::vector<const char*> parameter_shardings, result_shardings;  // serialized xla.OpSharding
  std::vector<size_t> parameter_sharding_sizes, result_sharding_sizes;
};

// layouts_extension.cc: the layouts of parameters and results.
void FillLayouts(ProgramInfo& info);

}  // namespace shardway::pjrt_plugin

struct PJRT_Executable {
  std::shared_ptr<const shardway::pjrt_plugin::ProgramInfo> info;
};

struct PJRT_LoadedExecutable {
  std::shared_ptr<const shardway::pjrt_plugin::ProgramInfo> info;
  std::atomic<bool> deleted{false};
};

namespace shardway::pjrt_plugin {

// The API's functions about programs.
PJRT_Error* ClientCompile(PJRT_Client_Compile_Args* args);
PJRT_Error* ExecutableDestroy(PJRT_Executable_Destroy_Args* args);
PJRT_Error* ExecutableName(PJRT_Executable_Name_Args* args);
PJRT_Error* ExecutableNumReplicas(PJRT_Executable_NumReplicas_Args* args);
PJRT_Error* ExecutableNumPartitions(PJRT_Executable_NumPartitions_Args* args);
PJRT_Error* ExecutableNumOutputs(PJRT_Executable_NumOutputs_Args* args);
PJRT_Error* ExecutableSizeOfGeneratedCode(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args* args);
PJRT_Error* ExecutableGetCostAnalysis(PJRT_Executable_GetCostAnalysis_Args* args);
PJRT_Error* ExecutableGetCompiledMemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args* args);
PJRT_Error* ExecutableOutputElementTypes(PJRT_Executable_OutputElementTypes_Args* args);
PJRT_Error* ExecutableOutputDimensions(PJRT_Executable_OutputDimensions_Args* args);
PJRT_Error* ExecutableOutputMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args* args);
PJRT_Error* ExecutableOptimizedProgram(PJRT_Executable_OptimizedProgram_Args* args);
PJRT_Error* ExecutableFingerprint(PJRT_Executable_Fingerprint_Args* args);
PJRT_Error* ExecutableSerialize(PJRT_Executable_Serialize_Args* args);
PJRT_Error* ExecutableDeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args* args);
PJRT_Error* LoadedExecutableDestroy(PJRT_LoadedExecutable_Destroy_Args* args);
PJRT_Error* LoadedExecutableGetExecutable(PJRT_LoadedExecutable_GetExecutable_Args* args);
PJRT_Error* LoadedExecutableGetDeviceAssignment(
    PJRT_LoadedExecutable_GetDeviceAssignment_Args* args);
PJRT_Error* LoadedExecutableAddressableDevices(PJRT_LoadedExecutable_AddressableDevices_Args* args);
PJRT_Error* LoadedExecutableDelete(PJRT_LoadedExecutable_Delete_Args* args);
PJRT_Error* LoadedExecutableIsDeleted(PJRT_LoadedExecutable_IsDeleted_Args* args);
PJRT_Error* LoadedExecutableFingerprint(PJRT_LoadedExecutable_Fingerprint_Args* args);

// execute.cc
PJRT_Error* LoadedExecutableExecute(PJRT_LoadedExecutable_Execute_Args* args);

}  // namespace shardway::pjrt_plugin
