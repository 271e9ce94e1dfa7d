// Errors across the C boundary: an absl::Status as a PJRT_Error, which the caller destroys.
#pragma once

#include "absl/status/status.h"
#include "pjrt_c_api.h"

// PJRT's error codes are absl's, number for number.
struct PJRT_Error {
  absl::Status status;
};

namespace shardway::pjrt_plugin {

// Null for OK, as every function of the API returns it.
PJRT_Error* ToError(absl::Status status);

// Leaves a C function with the error unless `expr` (absl::Status) is OK.
#define SHARDWAY_PJRT_RETURN_IF_ERROR(expr)                        \
  do {                                                             \
    if (absl::Status _status = (expr); !_status.ok()) {            \
      return ::shardway::pjrt_plugin::ToError(std::move(_status)); \
    }                                                              \
  } while (false)

// The API's functions about errors.
void ErrorDestroy(PJRT_Error_Destroy_Args* args);
void ErrorMessage(PJRT_Error_Message_Args* args);
PJRT_Error* ErrorGetCode(PJRT_Error_GetCode_Args* args);

}  // namespace shardway::pjrt_plugin
