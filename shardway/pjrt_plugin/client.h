// The PJRT client: one session with a controller, and what the plugin keeps for it.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "pjrt_c_api.h"
#include "shardway/client/session.h"
#include "shardway/pjrt_plugin/assembly_cache.h"
#include "shardway/pjrt_plugin/device.h"
#include "shardway/pjrt_plugin/external_reference.h"
#include "shardway/pjrt_plugin/placement.h"
#include "shardway/pjrt_plugin/shard_grouper.h"
#include "shardway/pjrt_plugin/topology_description.h"

struct PJRT_Client {
  explicit PJRT_Client(std::unique_ptr<shardway::client::Session> session);
  PJRT_Client(const PJRT_Client&) = delete;
  ~PJRT_Client();

  // First member, last to go: arrays held below free themselves in it. Null once the process is
  // exiting: what other libraries' destructors still release then is gone already.
  std::unique_ptr<shardway::client::Session> session;
  std::string platform_name;
  std::string platform_version;
  std::deque<PJRT_Device> owned_devices;
  std::vector<PJRT_Device*> devices;   // by global id
  std::vector<PJRT_Memory*> memories;  // by id
  PJRT_TopologyDescription topology;
  shardway::pjrt_plugin::PlacementTable placements;
  shardway::pjrt_plugin::AssemblyCache assemblies;
  shardway::pjrt_plugin::ExternalReferences external_references;
  shardway::pjrt_plugin::ShardGrouper grouper{this};
};

namespace shardway::pjrt_plugin {

// Calls `visit` for the session of every client of this process. It must not make or end clients.
void ForEachSession(absl::FunctionRef<void(client::Session&)> visit);

// The API's functions about clients.
PJRT_Error* ClientCreate(PJRT_Client_Create_Args* args);
PJRT_Error* ClientDestroy(PJRT_Client_Destroy_Args* args);
PJRT_Error* ClientPlatformName(PJRT_Client_PlatformName_Args* args);
PJRT_Error* ClientPlatformVersion(PJRT_Client_PlatformVersion_Args* args);
PJRT_Error* ClientProcessIndex(PJRT_Client_ProcessIndex_Args* args);
PJRT_Error* ClientTopologyDescription(PJRT_Client_TopologyDescription_Args* args);
PJRT_Error* ClientDevices(PJRT_Client_Devices_Args* args);
PJRT_Error* ClientAddressableDevices(PJRT_Client_AddressableDevices_Args* args);
PJRT_Error* ClientLookupDevice(PJRT_Client_LookupDevice_Args* args);
PJRT_Error* ClientLookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args* args);
PJRT_Error* ClientAddressableMemories(PJRT_Client_AddressableMemories_Args* args);
PJRT_Error* ClientDefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args* args);

}  // namespace shardway::pjrt_plugin
