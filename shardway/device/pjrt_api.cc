#include "shardway/device/pjrt_api.h"

#include <dlfcn.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/base/mutex.h"
#include "shardway/base/raw_enum.h"
#include "shardway/base/status_macros.h"

namespace shardway::device {
namespace {

// Functions that every client needs exist since this minor version (execute_device, launch ids).
constexpr int kOldestMinorVersion = 40;

// The FFI extension's layout (pjrt_c_api_ffi_extension.h); the wheel that ships pjrt_c_api.h leaves
// its extensions out.
struct FfiRegisterHandlerArgs {
  size_t struct_size;
  const char* target_name;
  size_t target_name_size;
  void* handler;
  const char* platform_name;
  size_t platform_name_size;
  uint32_t traits;
};
struct FfiExtension {
  PJRT_Extension_Base base;
  void* type_id_register;
  void* user_data_add;
  PJRT_Error* (*register_handler)(FfiRegisterHandlerArgs*);
};

absl::StatusOr<const PJRT_Api*> OpenLibrary(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::NotFoundError(absl::StrCat("the PJRT plugin can't be opened: ", dlerror()));
  }
  auto* get_api = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not a PJRT plugin: it has no function GetPjrtApi"));
  }
  const PJRT_Api* api = get_api();
  if (api == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": GetPjrtApi returned nothing"));
  }
  const PJRT_Api_Version& version = api->pjrt_api_version;
  if (version.major_version != PJRT_API_MAJOR || version.minor_version < kOldestMinorVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " speaks PJRT ", version.major_version, ".", version.minor_version, "; ",
        PJRT_API_MAJOR, ".", kOldestMinorVersion, " or a newer ", PJRT_API_MAJOR, ".x is needed"));
  }
  return api;
}

}  // namespace

absl::StatusOr<const PjrtApi*> PjrtApi::Load(const std::string& path) {
  static Mutex& mutex = *new Mutex;
  static auto& loaded = *new std::map<std::string, const PjrtApi*>;
  MutexLock lock(mutex);
  if (auto it = loaded.find(path); it != loaded.end()) return it->second;

  SHARDWAY_ASSIGN_OR_RETURN(const PJRT_Api* api, OpenLibrary(path));
  auto* plugin = new PjrtApi(path, api);
  SHARDWAY_PJRT_ARGS(args, PJRT_Plugin_Initialize_Args);
  SHARDWAY_RETURN_IF_ERROR(
      plugin->ToStatus(api->PJRT_Plugin_Initialize(&args), absl::StrCat("initializing ", path)));
  LOG_INFO("loaded PJRT plugin {} (API {}.{})", path, api->pjrt_api_version.major_version,
           api->pjrt_api_version.minor_version);
  loaded[path] = plugin;
  return plugin;
}

absl::Status PjrtApi::ToStatus(PJRT_Error* error, std::string_view what) const {
  if (error == nullptr) return absl::OkStatus();
  SHARDWAY_PJRT_ARGS(message, PJRT_Error_Message_Args);
  message.error = error;
  api_->PJRT_Error_Message(&message);
  std::string text = absl::StrCat(absl::string_view(what.data(), what.size()), ": ",
                                  absl::string_view(message.message, message.message_size));

  SHARDWAY_PJRT_ARGS(code, PJRT_Error_GetCode_Args);
  code.error = error;
  int value = PJRT_Error_Code_UNKNOWN;
  PJRT_Error* nested = api_->PJRT_Error_GetCode(&code);
  if (nested == nullptr) value = RawEnum(code.code);
  if (value <= PJRT_Error_Code_OK || value > PJRT_Error_Code_UNAUTHENTICATED) {
    value = PJRT_Error_Code_UNKNOWN;
  }
  for (PJRT_Error* dead : {error, nested}) {
    SHARDWAY_PJRT_ARGS(destroy, PJRT_Error_Destroy_Args);
    destroy.error = dead;
    if (dead != nullptr) api_->PJRT_Error_Destroy(&destroy);
  }
  return absl::Status(static_cast<absl::StatusCode>(value), text);
}

absl::Status PjrtApi::Await(PJRT_Event* event, std::string_view what) const {
  if (event == nullptr) return absl::OkStatus();
  SHARDWAY_PJRT_ARGS(await, PJRT_Event_Await_Args);
  await.event = event;
  absl::Status status = ToStatus(api_->PJRT_Event_Await(&await), what);
  SHARDWAY_PJRT_ARGS(destroy, PJRT_Event_Destroy_Args);
  destroy.event = event;
  absl::Status destroyed = ToStatus(api_->PJRT_Event_Destroy(&destroy), "destroying an event");
  return status.ok() ? destroyed : status;
}

const PJRT_Extension_Base* PjrtApi::FindExtension(int type) const {
  for (const PJRT_Extension_Base* it = api_->extension_start; it != nullptr; it = it->next) {
    if (RawEnum(it->type) == type) return it;
  }
  return nullptr;
}

absl::Status PjrtApi::RegisterFfiHandler(std::string_view target, void* handler,
                                         std::string_view platform) const {
  const auto* extension =
      reinterpret_cast<const FfiExtension*>(FindExtension(PJRT_Extension_Type_FFI));
  if (extension == nullptr || extension->base.struct_size < sizeof(FfiExtension) ||
      extension->register_handler == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(path_, " has no FFI extension that registers handlers: programs that call ",
                     absl::string_view(target.data(), target.size()), " can't run on it"));
  }
  FfiRegisterHandlerArgs args = {};
  args.struct_size = sizeof(args);
  args.target_name = target.data();
  args.target_name_size = target.size();
  args.handler = handler;
  args.platform_name = platform.data();
  args.platform_name_size = platform.size();
  return ToStatus(
      extension->register_handler(&args),
      absl::StrCat("registering FFI handler ", absl::string_view(target.data(), target.size())));
}

}  // namespace shardway::device
