// The API's functions that move bytes between host memory and devices.
#pragma once

#include "pjrt_c_api.h"

namespace shardway::pjrt_plugin {

PJRT_Error* ClientBufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args* args);
PJRT_Error* BufferToHostBuffer(PJRT_Buffer_ToHostBuffer_Args* args);

}  // namespace shardway::pjrt_plugin
