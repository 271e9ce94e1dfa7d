// Devices and their descriptions. JAX turns every attribute into a Python attribute: `slice_index`
// is the island (mesh_utils.create_hybrid_device_mesh works off it), `host_name`, `host_index`,
// `coords` and `core_on_chip` say where a device is, `link_prices` what the compiler takes sending
// between them to cost. All devices are addressable from this one process.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt_c_api.h"
#include "shardway/client/session.h"
#include "shardway/pjrt_plugin/memory.h"

struct PJRT_DeviceDescription {
  // `link_prices`: of its cluster, as topology::LinkPrices writes them.
  PJRT_DeviceDescription(const shardway::client::Device& device, std::string_view platform,
                         std::string_view link_prices);
  PJRT_DeviceDescription(const PJRT_DeviceDescription&) = delete;

  int id;
  std::string kind;
  std::string host_name;
  std::string link_prices;
  std::string debug_string;
  std::string to_string;
  std::vector<int64_t> coords;
  std::vector<PJRT_NamedValue> attributes;
};

struct PJRT_Device {
  PJRT_Device(PJRT_Client* client, const shardway::client::Device& device);

  PJRT_Client* client;
  PJRT_DeviceDescription description;
  std::deque<PJRT_Memory> owned_memories;
  std::vector<PJRT_Memory*> memories;  // the first is the default
};

namespace shardway::pjrt_plugin {

// The API's functions about devices.
PJRT_Error* DeviceDescriptionId(PJRT_DeviceDescription_Id_Args* args);
PJRT_Error* DeviceDescriptionProcessIndex(PJRT_DeviceDescription_ProcessIndex_Args* args);
PJRT_Error* DeviceDescriptionAttributes(PJRT_DeviceDescription_Attributes_Args* args);
// PJRT_Device_GetAttributes, which is newer than the header: takes its argument untyped.
PJRT_Error* DeviceGetAttributes(void* args);
PJRT_Error* DeviceDescriptionKind(PJRT_DeviceDescription_Kind_Args* args);
PJRT_Error* DeviceDescriptionDebugString(PJRT_DeviceDescription_DebugString_Args* args);
PJRT_Error* DeviceDescriptionToString(PJRT_DeviceDescription_ToString_Args* args);
PJRT_Error* DeviceGetDescription(PJRT_Device_GetDescription_Args* args);
PJRT_Error* DeviceIsAddressable(PJRT_Device_IsAddressable_Args* args);
PJRT_Error* DeviceLocalHardwareId(PJRT_Device_LocalHardwareId_Args* args);
// What this session's arrays take on the device, and may.
PJRT_Error* DeviceMemoryStats(PJRT_Device_MemoryStats_Args* args);
PJRT_Error* DeviceAddressableMemories(PJRT_Device_AddressableMemories_Args* args);
PJRT_Error* DeviceDefaultMemory(PJRT_Device_DefaultMemory_Args* args);

}  // namespace shardway::pjrt_plugin
