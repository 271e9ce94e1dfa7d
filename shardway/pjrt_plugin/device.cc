#include "shardway/pjrt_plugin/device.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardway/pjrt_plugin/client.h"
#include "shardway/pjrt_plugin/error.h"
#include "shardway/pjrt_plugin/named_value.h"

using shardway::pjrt_plugin::NamedInt;
using shardway::pjrt_plugin::NamedInts;
using shardway::pjrt_plugin::NamedString;

PJRT_DeviceDescription::PJRT_DeviceDescription(const shardway::client::Device& device,
                                               std::string_view platform,
                                               std::string_view link_prices)
    : id(device.id),
      kind(platform),
      host_name(absl::StrCat("island", device.island, "-host", device.host)),
      link_prices(link_prices),
      debug_string(absl::StrCat("Shardway device ", device.id, ": island ", device.island,
                                ", host ", device.host, ", local ", device.local)),
      to_string(absl::StrCat("ShardwayDevice(id=", device.id, ", island=", device.island,
                             ", host=", device.host, ", local=", device.local, ")")),
      coords(device.coords.begin(), device.coords.end()) {
  attributes = {NamedInt("slice_index", device.island),
                NamedString("host_name", host_name),
                NamedInt("host_index", device.host),
                NamedInts("coords", coords),
                NamedInt("core_on_chip", 0),
                NamedString("link_prices", this->link_prices)};
}

PJRT_Device::PJRT_Device(PJRT_Client* client, const shardway::client::Device& device)
    : client(client), description(device, client->platform_name, client->session->link_prices()) {
  const auto kinds = shardway::pjrt_plugin::MemoryKinds(client->platform_name);
  for (size_t i = 0; i < kinds.size(); ++i) {
    const std::string kind(kinds[i]);
    owned_memories.push_back(
        {.id = device.id * static_cast<int>(kinds.size()) + static_cast<int>(i),
         .kind_id = static_cast<int>(i),
         .kind = kind,
         .debug_string = absl::StrCat(kind, " memory of Shardway device ", device.id),
         .to_string = absl::StrCat("ShardwayMemory(device=", device.id, ", kind=", kind, ")"),
         .device = this});
    memories.push_back(&owned_memories.back());
  }
}

namespace shardway::pjrt_plugin {

PJRT_Error* DeviceDescriptionId(PJRT_DeviceDescription_Id_Args* args) {
  args->id = args->device_description->id;
  return nullptr;
}

PJRT_Error* DeviceDescriptionProcessIndex(PJRT_DeviceDescription_ProcessIndex_Args* args) {
  args->process_index = 0;
  return nullptr;
}

PJRT_Error* DeviceDescriptionAttributes(PJRT_DeviceDescription_Attributes_Args* args) {
  args->attributes = args->device_description->attributes.data();
  args->num_attributes = args->device_description->attributes.size();
  return nullptr;
}

namespace {

struct DeviceGetAttributesArgs {  // of API 0.92
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;
  const PJRT_NamedValue* attributes;  // out, as long-lived as the device
  size_t num_attributes;              // out
  void* device_attributes;            // out: what the deleter takes
  void (*attributes_deleter)(void*);  // out
};

}  // namespace

PJRT_Error* DeviceGetAttributes(void* untyped) {
  auto* args = static_cast<DeviceGetAttributesArgs*>(untyped);
  args->attributes = args->device->description.attributes.data();
  args->num_attributes = args->device->description.attributes.size();
  args->device_attributes = nullptr;
  args->attributes_deleter = [](void*) {};
  return nullptr;
}

PJRT_Error* DeviceDescriptionKind(PJRT_DeviceDescription_Kind_Args* args) {
  args->device_kind = args->device_description->kind.data();
  args->device_kind_size = args->device_description->kind.size();
  return nullptr;
}

PJRT_Error* DeviceDescriptionDebugString(PJRT_DeviceDescription_DebugString_Args* args) {
  args->debug_string = args->device_description->debug_string.data();
  args->debug_string_size = args->device_description->debug_string.size();
  return nullptr;
}

PJRT_Error* DeviceDescriptionToString(PJRT_DeviceDescription_ToString_Args* args) {
  args->to_string = args->device_description->to_string.data();
  args->to_string_size = args->device_description->to_string.size();
  return nullptr;
}

PJRT_Error* DeviceGetDescription(PJRT_Device_GetDescription_Args* args) {
  args->device_description = &args->device->description;
  return nullptr;
}

PJRT_Error* DeviceIsAddressable(PJRT_Device_IsAddressable_Args* args) {
  args->is_addressable = true;
  return nullptr;
}

PJRT_Error* DeviceLocalHardwareId(PJRT_Device_LocalHardwareId_Args* args) {
  // Unique in this process, as JAX wants it; every device is local to it.
  args->local_hardware_id = args->device->description.id;
  return nullptr;
}

PJRT_Error* DeviceMemoryStats(PJRT_Device_MemoryStats_Args* args) {
  PJRT_Client& client = *args->device->client;
  client.grouper.Flush();
  const auto stats = client.session->DeviceMemory(args->device->description.id);
  if (!stats.ok()) return ToError(stats.status());
  args->bytes_in_use = stats->bytes_in_use;
  args->bytes_limit = stats->bytes_limit;
  args->bytes_limit_is_set = true;
  args->peak_bytes_in_use_is_set = false;
  args->num_allocs_is_set = false;
  args->largest_alloc_size_is_set = false;
  args->bytes_reserved_is_set = false;
  args->peak_bytes_reserved_is_set = false;
  args->bytes_reservable_limit_is_set = false;
  args->largest_free_block_bytes_is_set = false;
  args->pool_bytes_is_set = false;
  args->peak_pool_bytes_is_set = false;
  return nullptr;
}

PJRT_Error* DeviceAddressableMemories(PJRT_Device_AddressableMemories_Args* args) {
  args->memories = args->device->memories.data();
  args->num_memories = args->device->memories.size();
  return nullptr;
}

PJRT_Error* DeviceDefaultMemory(PJRT_Device_DefaultMemory_Args* args) {
  args->memory = args->device->memories.front();
  return nullptr;
}

}  // namespace shardway::pjrt_plugin
