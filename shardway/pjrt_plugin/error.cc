#include "shardway/pjrt_plugin/error.h"

#include <utility>

namespace shardway::pjrt_plugin {

PJRT_Error* ToError(absl::Status status) {
  return status.ok() ? nullptr : new PJRT_Error{std::move(status)};
}

void ErrorDestroy(PJRT_Error_Destroy_Args* args) { delete args->error; }

void ErrorMessage(PJRT_Error_Message_Args* args) {
  args->message = args->error->status.message().data();
  args->message_size = args->error->status.message().size();
}

PJRT_Error* ErrorGetCode(PJRT_Error_GetCode_Args* args) {
  args->code = static_cast<PJRT_Error_Code>(args->error->status.code());
  return nullptr;
}

}  // namespace shardway::pjrt_plugin
