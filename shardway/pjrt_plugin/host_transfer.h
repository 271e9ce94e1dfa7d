// The API's functions that move bytes between host memory and devices.
#pragma once

#include "pjrt_c_api.h"
#include "shardway/pjrt_plugin/shard_shape.h"

namespace shardway::pjrt_plugin {

// Whether it is the layout that arrays have: dense, row-major (null: the default, which is that).
bool IsRowMajorLayout(const PJRT_Buffer_MemoryLayout* layout, const ShardShape& shape);

PJRT_Error* ClientBufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args* args);
PJRT_Error* BufferToHostBuffer(PJRT_Buffer_ToHostBuffer_Args* args);

}  // namespace shardway::pjrt_plugin
