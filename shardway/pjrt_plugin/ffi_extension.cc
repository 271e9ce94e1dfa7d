// FFI: programs run in the workers' processes, so a handler at an address of this process cannot be
// called from one: registering it is an error that says what to do instead. Type ids are given out,
// and the user data that JAX hangs on every execution, which only handlers here could read, is
// dropped.
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "shardway/base/mutex.h"
#include "shardway/pjrt_plugin/error.h"
#include "shardway/pjrt_plugin/extensions.h"

struct PJRT_ExecuteContext {};

namespace shardway::pjrt_plugin {
namespace {

struct TypeIdRegisterArgs {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* type_name;
  size_t type_name_size;
  int64_t type_id;  // in, out: 0 asks for a new one
};

struct UserData {
  int64_t type_id;
  void* data;  // stays the caller's; what follows depends on the caller's version
};

struct UserDataAddArgs {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_ExecuteContext* context;
  UserData user_data;
};

struct RegisterHandlerArgs {
  size_t struct_size;
  const char* target_name;
  size_t target_name_size;
  int api_version;
  void* handler;
  const char* platform_name;
  size_t platform_name_size;
  int traits;
};

struct Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*type_id_register)(TypeIdRegisterArgs*);
  PJRT_Error* (*user_data_add)(UserDataAddArgs*);
  PJRT_Error* (*register_handler)(RegisterHandlerArgs*);
};

PJRT_Error* RegisterTypeId(TypeIdRegisterArgs* args) {
  static Mutex mutex;
  static auto* const ids = new std::map<std::string, int64_t>();
  const std::string name(args->type_name, args->type_name_size);
  MutexLock lock(mutex);
  const auto known = ids->find(name);
  const int64_t id = known != ids->end()  ? known->second
                     : args->type_id != 0 ? args->type_id
                                          : static_cast<int64_t>(ids->size()) + 1;
  if (args->type_id != 0 && args->type_id != id) {
    return ToError(absl::AlreadyExistsError(
        absl::StrCat("FFI type ", name, " already has id ", id, ", not ", args->type_id)));
  }
  ids->emplace(name, id);
  args->type_id = id;
  return nullptr;
}

// The data stays the caller's: older versions of this structure have a deleter, newer ones don't.
PJRT_Error* AddUserData(UserDataAddArgs*) { return nullptr; }

PJRT_Error* RegisterHandler(RegisterHandlerArgs* args) {
  return ToError(absl::UnimplementedError(
      absl::StrCat("FFI handler \"", std::string(args->target_name, args->target_name_size),
                   "\" is in this process, and programs run in the workers' processes; use "
                   "jax.pure_callback, or "
                   "a plugin for the workers (SHARDWAY_PLUGIN) that has the handler")));
}

}  // namespace

PJRT_Error* ExecuteContextCreate(PJRT_ExecuteContext_Create_Args* args) {
  static PJRT_ExecuteContext context;  // nothing is kept in it, so one serves all
  args->context = &context;
  return nullptr;
}

PJRT_Error* ExecuteContextDestroy(PJRT_ExecuteContext_Destroy_Args*) { return nullptr; }

PJRT_Extension_Base* FfiExtension(PJRT_Extension_Base* next) {
  static Extension extension{
      .base = {sizeof(Extension), PJRT_Extension_Type_FFI, nullptr},
      .type_id_register = RegisterTypeId,
      .user_data_add = AddUserData,
      .register_handler = RegisterHandler,
  };
  extension.base.next = next;
  return &extension.base;
}

}  // namespace shardway::pjrt_plugin
