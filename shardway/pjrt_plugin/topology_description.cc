#include "shardway/pjrt_plugin/topology_description.h"

#include "absl/strings/str_cat.h"
#include "shardway/pjrt_plugin/device.h"

struct PJRT_SerializedTopology {
  std::string text;
};

namespace shardway::pjrt_plugin {

PJRT_Error* TopologyDestroy(PJRT_TopologyDescription_Destroy_Args*) { return nullptr; }

PJRT_Error* TopologyPlatformName(PJRT_TopologyDescription_PlatformName_Args* args) {
  args->platform_name = args->topology->platform_name.data();
  args->platform_name_size = args->topology->platform_name.size();
  return nullptr;
}

PJRT_Error* TopologyPlatformVersion(PJRT_TopologyDescription_PlatformVersion_Args* args) {
  args->platform_version = args->topology->platform_version.data();
  args->platform_version_size = args->topology->platform_version.size();
  return nullptr;
}

PJRT_Error* TopologyGetDeviceDescriptions(
    PJRT_TopologyDescription_GetDeviceDescriptions_Args* args) {
  args->descriptions = args->topology->descriptions.data();
  args->num_descriptions = args->topology->descriptions.size();
  return nullptr;
}

PJRT_Error* TopologyAttributes(PJRT_TopologyDescription_Attributes_Args* args) {
  args->attributes = nullptr;
  args->num_attributes = 0;
  return nullptr;
}

PJRT_Error* TopologySerialize(PJRT_TopologyDescription_Serialize_Args* args) {
  auto* serialized = new PJRT_SerializedTopology{absl::StrCat(
      "shardway ", args->topology->platform_name, " ", args->topology->platform_version, "\n")};
  for (const PJRT_DeviceDescription* description : args->topology->descriptions) {
    absl::StrAppend(&serialized->text, description->to_string, "\n");
  }
  args->serialized_topology = serialized;
  args->serialized_bytes = serialized->text.data();
  args->serialized_bytes_size = serialized->text.size();
  args->serialized_topology_deleter = [](PJRT_SerializedTopology* topology) { delete topology; };
  return nullptr;
}

}  // namespace shardway::pjrt_plugin
