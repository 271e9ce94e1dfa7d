#include "shardway/device/pjrt_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/cores.h"
#include "shardway/base/logging.h"
#include "shardway/base/status_macros.h"
#include "shardway/device/pjrt_buffer.h"
#include "shardway/device/pjrt_compile_options.h"
#include "shardway/device/pjrt_executable.h"
#include "shardway/device/pjrt_named_values.h"
#include "shardway/device/pjrt_types.h"

namespace shardway::device {
namespace {

// What the FFI calls the platform that a client's platform name stands for.
std::string_view FfiPlatform(std::string_view platform_name) {
  if (platform_name == "cuda") return "CUDA";
  if (platform_name == "rocm") return "ROCM";
  return "Host";
}

}  // namespace

int CpuDevicesFor(int num_devices) {
  // XLA lets 32 programs at a time into a CPU device; more would wait outside for collectives that
  // they take part in. Half of that, for what is enqueued behind.
  constexpr int kMostSharing = 16;
  const int least = (num_devices + kMostSharing - 1) / kMostSharing;
  return std::max(least, std::min(num_devices, Cores()));
}

absl::StatusOr<std::unique_ptr<PjrtClient>> PjrtClient::Create(
    const PjrtApi* api, int num_devices, absl::Span<const std::string> options) {
  std::unique_ptr<PjrtClient> client(new PjrtClient(api));
  SHARDWAY_RETURN_IF_ERROR(client->Start(num_devices, options));
  return client;
}

absl::Status PjrtClient::Start(int num_devices, absl::Span<const std::string> options) {
  NamedValues named;
  named.AddInt("cpu_device_count", CpuDevicesFor(num_devices));
  // Execute then blocks until the program has ended (design decision 9).
  SHARDWAY_RETURN_IF_ERROR(named.AddText("asynchronous=false"));
  for (const std::string& option : options) SHARDWAY_RETURN_IF_ERROR(named.AddText(option));

  SHARDWAY_PJRT_ARGS(create, PJRT_Client_Create_Args);
  create.create_options = named.values().data();
  create.num_options = named.values().size();
  absl::Status status = api_->ToStatus((*api_)->PJRT_Client_Create(&create), "creating a client");
  if (!status.ok() && options.empty()) {
    // A plugin that checks its options need not know ours; it then has the devices it has.
    LOG_WARN("{} does not take our create options ({}); trying without", api_->path(),
             status.ToString());
    create.create_options = nullptr;
    create.num_options = 0;
    status = api_->ToStatus((*api_)->PJRT_Client_Create(&create), "creating a client");
  }
  SHARDWAY_RETURN_IF_ERROR(status);
  client_ = create.client;

  SHARDWAY_PJRT_ARGS(name, PJRT_Client_PlatformName_Args);
  name.client = client_;
  SHARDWAY_RETURN_IF_ERROR(
      api_->ToStatus((*api_)->PJRT_Client_PlatformName(&name), "asking for the platform"));
  platform_name_.assign(name.platform_name, name.platform_name_size);
  SHARDWAY_PJRT_ARGS(version, PJRT_Client_PlatformVersion_Args);
  version.client = client_;
  SHARDWAY_RETURN_IF_ERROR(
      api_->ToStatus((*api_)->PJRT_Client_PlatformVersion(&version), "asking for the platform"));
  platform_version_.assign(version.platform_version, version.platform_version_size);

  SHARDWAY_PJRT_ARGS(devices, PJRT_Client_AddressableDevices_Args);
  devices.client = client_;
  SHARDWAY_RETURN_IF_ERROR(
      api_->ToStatus((*api_)->PJRT_Client_AddressableDevices(&devices), "asking for devices"));
  const auto available = static_cast<int>(devices.num_addressable_devices);
  const int needed = platform_name_ == "cpu" ? CpuDevicesFor(num_devices) : num_devices;
  if (available < needed) {
    return absl::FailedPreconditionError(
        absl::StrCat(api_->path(), " has ", available, " devices, ", needed, " are needed"));
  }
  for (int i = 0; i < num_devices; ++i) {
    devices_.push_back(devices.addressable_devices[i % needed]);
  }
  return absl::OkStatus();
}

PjrtClient::~PjrtClient() {
  if (client_ == nullptr) return;
  SHARDWAY_PJRT_ARGS(args, PJRT_Client_Destroy_Args);
  args.client = client_;
  const absl::Status status =
      api_->ToStatus((*api_)->PJRT_Client_Destroy(&args), "destroying the client");
  if (!status.ok()) LOG_ERROR("{}", status.ToString());
}

absl::Status PjrtClient::CheckDevice(int device) const {
  if (device >= 0 && device < num_devices()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("there is no device ", device, ", only ", num_devices(), " devices"));
}

absl::StatusOr<std::unique_ptr<Executable>> PjrtClient::Compile(std::string_view text,
                                                                std::string_view xla_options) {
  SHARDWAY_ASSIGN_OR_RETURN(const std::string options, PerDeviceCompileOptions(xla_options));
  constexpr std::string_view kFormat = "mlir";
  std::string code(text);  // the plugin's pointer is not const
  SHARDWAY_PJRT_ARGS(program, PJRT_Program);
  program.code = code.data();
  program.code_size = code.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  SHARDWAY_PJRT_ARGS(args, PJRT_Client_Compile_Args);
  args.client = client_;
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  SHARDWAY_RETURN_IF_ERROR(api_->ToStatus((*api_)->PJRT_Client_Compile(&args), "compiling"));
  SHARDWAY_ASSIGN_OR_RETURN(std::unique_ptr<Executable> executable,
                            PjrtExecutable::Create(this, args.executable));
  return executable;
}

absl::StatusOr<std::unique_ptr<Buffer>> PjrtClient::FromHost(int device, ElementType element,
                                                             absl::Span<const int64_t> dims,
                                                             const void* data) {
  SHARDWAY_RETURN_IF_ERROR(CheckDevice(device));
  SHARDWAY_PJRT_ARGS(args, PJRT_Client_BufferFromHostBuffer_Args);
  args.client = client_;
  args.data = data;
  args.type = ToPjrtType(element);
  if (args.type == PJRT_Buffer_Type_INVALID) {
    return absl::UnimplementedError(
        absl::StrCat("PJRT has no arrays of ", ElementTypeName(element).data()));
  }
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = devices_[device];
  SHARDWAY_RETURN_IF_ERROR(
      api_->ToStatus((*api_)->PJRT_Client_BufferFromHostBuffer(&args), "uploading a buffer"));
  auto buffer = std::make_unique<PjrtBuffer>(
      api_, args.buffer, BufferShape::Make(element, {dims.begin(), dims.end()}));
  SHARDWAY_RETURN_IF_ERROR(api_->Await(args.done_with_host_buffer, "uploading a buffer"));
  return buffer;
}

absl::StatusOr<std::unique_ptr<Buffer>> PjrtClient::CopyTo(Buffer& source, int device) {
  SHARDWAY_RETURN_IF_ERROR(CheckDevice(device));
  auto& from = static_cast<PjrtBuffer&>(source);
  SHARDWAY_PJRT_ARGS(args, PJRT_Buffer_CopyToDevice_Args);
  args.buffer = from.get();
  args.dst_device = devices_[device];
  SHARDWAY_RETURN_IF_ERROR(
      api_->ToStatus((*api_)->PJRT_Buffer_CopyToDevice(&args), "copying to a device"));
  return std::make_unique<PjrtBuffer>(api_, args.dst_buffer, from.shape());
}

absl::Status PjrtClient::RegisterHandler(std::string_view target, void* handler) {
  return api_->RegisterFfiHandler(target, handler, FfiPlatform(platform_name_));
}

absl::StatusOr<std::unique_ptr<Client>> LoadPjrtPlugin(const std::string& path, int num_devices,
                                                       absl::Span<const std::string> options) {
  SHARDWAY_ASSIGN_OR_RETURN(const PjrtApi* api, PjrtApi::Load(path));
  SHARDWAY_ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                            PjrtClient::Create(api, num_devices, options));
  return client;
}

}  // namespace shardway::device
