#include "shardway/pjrt_plugin/executable.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shardway/base/status_macros.h"
#include "shardway/pjrt_plugin/client.h"
#include "shardway/pjrt_plugin/compile_options.h"
#include "shardway/pjrt_plugin/compile_options.pb.h"
#include "shardway/pjrt_plugin/element_types.h"
#include "shardway/pjrt_plugin/error.h"
#include "shardway/pjrt_plugin/inspection.h"
#include "shardway/pjrt_plugin/named_value.h"

struct PJRT_SerializedExecutable {
  std::string bytes;
};

namespace shardway::pjrt_plugin {
namespace {

// 64-bit FNV-1a: the same for the same program in every process.
uint64_t StableHash(std::string_view bytes, uint64_t hash) {
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return hash;
}

ShardShapeRef ResultShape(const client::Boundary& result) {
  if (result.is_token) {
    return std::make_shared<const ShardShape>(PJRT_Buffer_Type_TOKEN, ElementType::kI1,
                                              absl::Span<const int64_t>{});
  }
  return std::make_shared<const ShardShape>(ToPjrt(result.element), result.element,
                                            result.local_dims);
}

absl::StatusOr<const Placement*> PlaceResult(PJRT_Client& client, const ProgramInfo& info,
                                             const std::string& kind) {
  if (kind.empty()) return info.placement;
  std::vector<PJRT_Memory*> memories;
  for (const PJRT_Device* device : info.devices) {
    const auto memory = std::find_if(device->memories.begin(), device->memories.end(),
                                     [&](const PJRT_Memory* m) { return m->kind == kind; });
    if (memory == device->memories.end()) {
      return absl::InvalidArgumentError(absl::StrCat("program ", info.program.name,
                                                     " puts a result into memory of kind \"", kind,
                                                     "\", which the devices do not have"));
    }
    memories.push_back(*memory);
  }
  return client.placements.Intern(memories);
}

void FillShardings(const std::vector<client::Boundary>& boundaries,
                   std::vector<const char*>& shardings, std::vector<size_t>& sizes) {
  for (const client::Boundary& boundary : boundaries) {
    shardings.push_back(boundary.op_sharding.data());
    sizes.push_back(boundary.op_sharding.size());
  }
}

absl::Status Describe(PJRT_Client& client, ProgramInfo& info) {
  std::vector<PJRT_Memory*> memories;
  for (const int id : info.options.devices) {
    info.devices.push_back(client.devices[static_cast<size_t>(id)]);
    memories.push_back(info.devices.back()->memories.front());
  }
  info.placement = client.placements.Intern(memories);
  for (const client::Boundary& result : info.program.results) {
    const ShardShapeRef& shape = info.result_shapes.emplace_back(ResultShape(result));
    if (shape->type == PJRT_Buffer_Type_INVALID) {
      return absl::UnimplementedError(
          absl::StrCat("program ", info.program.name, " has a result of type ",
                       std::string(ElementTypeName(result.element)), ", which PJRT cannot name"));
    }
    SHARDWAY_ASSIGN_OR_RETURN(const Placement* placement,
                              PlaceResult(client, info, result.memory_kind));
    info.result_placements.push_back(placement);
    info.output_types.push_back(shape->type);
    info.output_dims.insert(info.output_dims.end(), shape->dims.begin(), shape->dims.end());
    info.output_ranks.push_back(shape->dims.size());
    const std::string& kind = placement->memories.front()->kind;
    info.output_memory_kinds.push_back(kind.data());
    info.output_memory_kind_sizes.push_back(kind.size());
  }
  for (size_t i = 0; i < info.program.parameters.size(); ++i) {
    if (info.program.parameters[i].donated) {
      info.donated.push_back(static_cast<uint32_t>(i));
    }
  }
  FillLayouts(info);
  FillShardings(info.program.parameters, info.parameter_shardings, info.parameter_sharding_sizes);
  FillShardings(info.program.results, info.result_shardings, info.result_sharding_sizes);
  info.cost.push_back(NamedFloat("flops", static_cast<float>(info.program.flops_per_device)));
  info.device_assignment = SerializeDeviceAssignment(info.options);
  info.fingerprint = absl::StrFormat("%016x%016x", StableHash(info.artifact, 0xcbf29ce484222325u),
                                     StableHash(info.options.xla_options, 0xcbf29ce484222325u));
  return absl::OkStatus();
}

absl::StatusOr<PJRT_LoadedExecutable*> CompileAndLoad(PJRT_Client& client, std::string artifact,
                                                      std::string_view compile_options) {
  auto info = std::make_shared<ProgramInfo>();
  info->client = &client;
  SHARDWAY_ASSIGN_OR_RETURN(
      info->options, ParseCompileOptions(compile_options, static_cast<int>(client.devices.size())));
  info->artifact = artifact;
  SHARDWAY_ASSIGN_OR_RETURN(info->program,
                            client.session->Compile(std::move(artifact), info->options));
  if (absl::Status status = Describe(client, *info); !status.ok()) {
    client.session->FreeProgram(info->program.id);
    return status;
  }
  return new PJRT_LoadedExecutable{.info = std::move(info)};
}

// A boundary's bytes on one device.
int64_t LocalBytes(const client::Boundary& boundary) {
  if (boundary.is_token) return 0;
  int64_t bytes = ElementBytes(boundary.element);
  for (const int64_t dim : boundary.local_dims) {
    bytes *= dim;
  }
  return bytes;
}

}  // namespace

PJRT_Error* ClientCompile(PJRT_Client_Compile_Args* args) {
  const std::string format(args->program->format, args->program->format_size);
  if (format != "mlir") {
    return ToError(absl::UnimplementedError(
        absl::StrCat("a program in format \"", format, "\": only \"mlir\" is compiled")));
  }
  absl::StatusOr<PJRT_LoadedExecutable*> executable =
      CompileAndLoad(*args->client, std::string(args->program->code, args->program->code_size),
                     std::string_view(args->compile_options, args->compile_options_size));
  if (!executable.ok()) return ToError(std::move(executable).status());
  // Not for a program from JAX's compilation cache: whom it would tell is gone.
  TellInspections((*executable)->info->artifact, (*executable)->info->program.inspections);
  args->executable = *executable;
  return nullptr;
}

PJRT_Error* ExecutableDestroy(PJRT_Executable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}

PJRT_Error* ExecutableName(PJRT_Executable_Name_Args* args) {
  args->executable_name = args->executable->info->program.name.data();
  args->executable_name_size = args->executable->info->program.name.size();
  return nullptr;
}

PJRT_Error* ExecutableNumReplicas(PJRT_Executable_NumReplicas_Args* args) {
  args->num_replicas = static_cast<size_t>(args->executable->info->options.num_replicas);
  return nullptr;
}

PJRT_Error* ExecutableNumPartitions(PJRT_Executable_NumPartitions_Args* args) {
  args->num_partitions = static_cast<size_t>(args->executable->info->options.num_partitions);
  return nullptr;
}

PJRT_Error* ExecutableNumOutputs(PJRT_Executable_NumOutputs_Args* args) {
  args->num_outputs = args->executable->info->program.results.size();
  return nullptr;
}

PJRT_Error* ExecutableSizeOfGeneratedCode(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args* args) {
  // XLA's code is in the workers; the text it is made from stands for it.
  args->size_in_bytes = static_cast<int64_t>(args->executable->info->program.text.size());
  return nullptr;
}

PJRT_Error* ExecutableGetCostAnalysis(PJRT_Executable_GetCostAnalysis_Args* args) {
  args->properties = args->executable->info->cost.data();
  args->num_properties = args->executable->info->cost.size();
  return nullptr;
}

PJRT_Error* ExecutableGetCompiledMemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args* args) {
  const client::Program& program = args->executable->info->program;
  const size_t size = args->struct_size;
  const PJRT_Executable_GetCompiledMemoryStats_Args given = *args;
  *args = {};
  args->struct_size = size;
  args->extension_start = given.extension_start;
  args->executable = given.executable;
  for (const client::Boundary& parameter : program.parameters) {
    args->argument_size_in_bytes += LocalBytes(parameter);
    if (parameter.alias_result >= 0) {
      args->alias_size_in_bytes += LocalBytes(parameter);
    }
  }
  for (const client::Boundary& result : program.results) {
    args->output_size_in_bytes += LocalBytes(result);
  }
  args->generated_code_size_in_bytes = static_cast<int64_t>(program.text.size());
  args->peak_memory_in_bytes =
      args->argument_size_in_bytes + args->output_size_in_bytes - args->alias_size_in_bytes;
  return nullptr;
}

PJRT_Error* ExecutableOutputElementTypes(PJRT_Executable_OutputElementTypes_Args* args) {
  const ProgramInfo& info = *args->executable->info;
  args->output_types = const_cast<PJRT_Buffer_Type*>(info.output_types.data());
  args->num_output_types = info.output_types.size();
  return nullptr;
}

PJRT_Error* ExecutableOutputDimensions(PJRT_Executable_OutputDimensions_Args* args) {
  const ProgramInfo& info = *args->executable->info;
  args->num_outputs = info.output_ranks.size();
  args->dims = info.output_dims.data();
  args->dim_sizes = info.output_ranks.data();
  return nullptr;
}

PJRT_Error* ExecutableOutputMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args* args) {
  const ProgramInfo& info = *args->executable->info;
  args->num_outputs = info.output_memory_kinds.size();
  args->memory_kinds = info.output_memory_kinds.data();
  args->memory_kind_sizes = info.output_memory_kind_sizes.data();
  return nullptr;
}

PJRT_Error* ExecutableOptimizedProgram(PJRT_Executable_OptimizedProgram_Args* args) {
  static constexpr std::string_view kFormat = "mlir";
  const std::string& text = args->executable->info->program.text;
  PJRT_Program& program = *args->program;
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  if (program.code == nullptr) {  // the caller asks for the size
    program.code_size = text.size();
    return nullptr;
  }
  if (program.code_size < text.size()) {
    return ToError(absl::InvalidArgumentError(absl::StrCat(
        "a buffer of ", program.code_size, " bytes for a program of ", text.size(), " bytes")));
  }
  std::memcpy(program.code, text.data(), text.size());
  program.code_size = text.size();
  return nullptr;
}

PJRT_Error* ExecutableFingerprint(PJRT_Executable_Fingerprint_Args* args) {
  args->executable_fingerprint = args->executable->info->fingerprint.data();
  args->executable_fingerprint_size = args->executable->info->fingerprint.size();
  return nullptr;
}

PJRT_Error* ExecutableSerialize(PJRT_Executable_Serialize_Args* args) {
  const ProgramInfo& info = *args->executable->info;
  SerializedExecutable proto;
  proto.set_artifact(info.artifact);
  proto.set_compile_options(info.options.xla_options);
  args->serialized_executable = new PJRT_SerializedExecutable{proto.SerializeAsString()};
  args->serialized_bytes = args->serialized_executable->bytes.data();
  args->serialized_bytes_size = args->serialized_executable->bytes.size();
  args->serialized_executable_deleter = [](PJRT_SerializedExecutable* bytes) { delete bytes; };
  return nullptr;
}

PJRT_Error* ExecutableDeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args* args) {
  SerializedExecutable proto;
  if (!proto.ParseFromArray(args->serialized_executable,
                            static_cast<int>(args->serialized_executable_size)) ||
      proto.artifact().empty()) {
    return ToError(absl::InvalidArgumentError("these bytes are not a serialized executable"));
  }
  const std::string_view options =
      args->overridden_serialized_compile_options != nullptr
          ? std::string_view(args->overridden_serialized_compile_options,
                             args->overridden_serialized_compile_options_size)
          : std::string_view(proto.compile_options());
  absl::StatusOr<PJRT_LoadedExecutable*> executable =
      CompileAndLoad(*args->client, proto.artifact(), options);
  if (!executable.ok()) return ToError(std::move(executable).status());
  args->loaded_executable = *executable;
  return nullptr;
}

PJRT_Error* LoadedExecutableDestroy(PJRT_LoadedExecutable_Destroy_Args* args) {
  PJRT_LoadedExecutable_Delete_Args deletion{.executable = args->executable};
  LoadedExecutableDelete(&deletion);
  delete args->executable;
  return nullptr;
}

PJRT_Error* LoadedExecutableGetExecutable(PJRT_LoadedExecutable_GetExecutable_Args* args) {
  args->executable = new PJRT_Executable{args->loaded_executable->info};
  return nullptr;
}

PJRT_Error* LoadedExecutableGetDeviceAssignment(
    PJRT_LoadedExecutable_GetDeviceAssignment_Args* args) {
  // The bytes live as long as the executable, which the caller holds meanwhile.
  args->serialized_bytes = args->executable->info->device_assignment.data();
  args->serialized_bytes_size = args->executable->info->device_assignment.size();
  args->serialized_device_assignment = nullptr;
  args->serialized_device_assignment_deleter = [](PJRT_DeviceAssignmentSerialized*) {};
  return nullptr;
}

PJRT_Error* LoadedExecutableAddressableDevices(
    PJRT_LoadedExecutable_AddressableDevices_Args* args) {
  args->addressable_devices = args->executable->info->devices.data();
  args->num_addressable_devices = args->executable->info->devices.size();
  return nullptr;
}

PJRT_Error* LoadedExecutableDelete(PJRT_LoadedExecutable_Delete_Args* args) {
  if (!args->executable->deleted.exchange(true, std::memory_order_acq_rel)) {
    const ProgramInfo& info = *args->executable->info;
    if (info.client->session != nullptr) {  // else closed at exit
      info.client->session->FreeProgram(info.program.id);
    }
  }
  return nullptr;
}

PJRT_Error* LoadedExecutableIsDeleted(PJRT_LoadedExecutable_IsDeleted_Args* args) {
  args->is_deleted = args->executable->deleted.load(std::memory_order_acquire);
  return nullptr;
}

PJRT_Error* LoadedExecutableFingerprint(PJRT_LoadedExecutable_Fingerprint_Args* args) {
  args->executable_fingerprint = args->executable->info->fingerprint.data();
  args->executable_fingerprint_size = args->executable->info->fingerprint.size();
  return nullptr;
}

}  // namespace shardway::pjrt_plugin
