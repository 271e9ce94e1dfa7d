#include "shardway/pjrt_plugin/memory.h"

namespace shardway::pjrt_plugin {

absl::Span<const std::string_view> MemoryKinds(std::string_view platform) {
  // JAX's own CPU backend names the same three in the same order.
  static constexpr std::string_view kCpu[] = {"device", "pinned_host", "unpinned_host"};
  static constexpr std::string_view kOther[] = {"device", "pinned_host"};
  if (platform == "cpu") return kCpu;
  return kOther;
}

PJRT_Error* MemoryId(PJRT_Memory_Id_Args* args) {
  args->id = args->memory->id;
  return nullptr;
}

PJRT_Error* MemoryKind(PJRT_Memory_Kind_Args* args) {
  args->kind = args->memory->kind.data();
  args->kind_size = args->memory->kind.size();
  return nullptr;
}

PJRT_Error* MemoryKindId(PJRT_Memory_Kind_Id_Args* args) {
  args->kind_id = args->memory->kind_id;
  return nullptr;
}

PJRT_Error* MemoryDebugString(PJRT_Memory_DebugString_Args* args) {
  args->debug_string = args->memory->debug_string.data();
  args->debug_string_size = args->memory->debug_string.size();
  return nullptr;
}

PJRT_Error* MemoryToString(PJRT_Memory_ToString_Args* args) {
  args->to_string = args->memory->to_string.data();
  args->to_string_size = args->memory->to_string.size();
  return nullptr;
}

PJRT_Error* MemoryAddressableByDevices(PJRT_Memory_AddressableByDevices_Args* args) {
  args->devices = &args->memory->device;
  args->num_devices = 1;
  return nullptr;
}

}  // namespace shardway::pjrt_plugin
