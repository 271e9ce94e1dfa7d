// Memories of a device. What JAX calls memory kinds; on CPU workers they are all the host's memory,
// and a kind is only a label that arrays carry.
#pragma once

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "pjrt_c_api.h"

struct PJRT_Memory {
  int id;       // unique in the client
  int kind_id;  // the kind's index in MemoryKinds(platform)
  std::string kind;
  std::string debug_string;
  std::string to_string;
  PJRT_Device* device;  // the one device that reaches it
};

namespace shardway::pjrt_plugin {

// The kinds that devices of a platform have; the first is the default.
absl::Span<const std::string_view> MemoryKinds(std::string_view platform);

// The API's functions about memories.
PJRT_Error* MemoryId(PJRT_Memory_Id_Args* args);
PJRT_Error* MemoryKind(PJRT_Memory_Kind_Args* args);
PJRT_Error* MemoryKindId(PJRT_Memory_Kind_Id_Args* args);
PJRT_Error* MemoryDebugString(PJRT_Memory_DebugString_Args* args);
PJRT_Error* MemoryToString(PJRT_Memory_ToString_Args* args);
PJRT_Error* MemoryAddressableByDevices(PJRT_Memory_AddressableByDevices_Args* args);

}  // namespace shardway::pjrt_plugin
