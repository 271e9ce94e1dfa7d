// The cluster as JAX's topology description: platform and device descriptions without a client.
#pragma once

#include <string>
#include <vector>

#include "pjrt_c_api.h"

struct PJRT_TopologyDescription {
  std::string platform_name;
  std::string platform_version;
  std::vector<PJRT_DeviceDescription*> descriptions;  // belong to the client
};

namespace shardway::pjrt_plugin {

// The API's functions about topologies. A topology belongs to its client; destroying it does
// nothing.
PJRT_Error* TopologyDestroy(PJRT_TopologyDescription_Destroy_Args* args);
PJRT_Error* TopologyPlatformName(PJRT_TopologyDescription_PlatformName_Args* args);
PJRT_Error* TopologyPlatformVersion(PJRT_TopologyDescription_PlatformVersion_Args* args);
PJRT_Error* TopologyGetDeviceDescriptions(
    PJRT_TopologyDescription_GetDeviceDescriptions_Args* args);
PJRT_Error* TopologyAttributes(PJRT_TopologyDescription_Attributes_Args* args);
// A text that is equal for equal clusters: JAX hashes it into its compilation cache's key.
PJRT_Error* TopologySerialize(PJRT_TopologyDescription_Serialize_Args* args);

}  // namespace shardway::pjrt_plugin
