#include "shardway/pjrt_plugin/client.h"

#include <cstdlib>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/mutex.h"
#include "shardway/pjrt_plugin/cluster.h"
#include "shardway/pjrt_plugin/error.h"
#include "shardway/pjrt_plugin/host_callback.h"

namespace shardway::pjrt_plugin {
namespace {

// Clients whose session is open. Python does not destroy what is still referenced when it ends, so
// at exit the sessions are closed here: a private cluster is gone before the process is.
struct OpenClients {
  Mutex mutex;
  std::set<PJRT_Client*> clients SHARDWAY_GUARDED_BY(mutex);

  static OpenClients& Get() {
    static auto* const open = new OpenClients();
    return *open;
  }
};

void CloseAllAtExit() {
  OpenClients& open = OpenClients::Get();
  std::set<PJRT_Client*> clients;
  {
    MutexLock lock(open.mutex);
    clients.swap(open.clients);
  }
  for (PJRT_Client* client : clients) {
    client->session.reset();
  }
}

}  // namespace
}  // namespace shardway::pjrt_plugin

PJRT_Client::PJRT_Client(std::unique_ptr<shardway::client::Session> opened)
    : session(std::move(opened)),
      platform_name(session->platform()),
      platform_version("shardway; " + session->platform_version()) {
  topology.platform_name = platform_name;
  topology.platform_version = platform_version;
  for (const shardway::client::Device& device : session->devices()) {
    PJRT_Device& made = owned_devices.emplace_back(this, device);
    devices.push_back(&made);
    memories.insert(memories.end(), made.memories.begin(), made.memories.end());
    topology.descriptions.push_back(&made.description);
  }
  session->SetCallbackHandler(shardway::pjrt_plugin::RunHostCallback);
  static const bool registered = std::atexit(shardway::pjrt_plugin::CloseAllAtExit) == 0;
  (void)registered;
  auto& open = shardway::pjrt_plugin::OpenClients::Get();
  shardway::MutexLock lock(open.mutex);
  open.clients.insert(this);
}

PJRT_Client::~PJRT_Client() {
  auto& open = shardway::pjrt_plugin::OpenClients::Get();
  shardway::MutexLock lock(open.mutex);
  open.clients.erase(this);
}

namespace shardway::pjrt_plugin {

void ForEachSession(absl::FunctionRef<void(client::Session&)> visit) {
  OpenClients& open = OpenClients::Get();
  MutexLock lock(open.mutex);
  for (PJRT_Client* client : open.clients) visit(*client->session);
}

PJRT_Error* ClientCreate(PJRT_Client_Create_Args* args) {
  absl::StatusOr<std::unique_ptr<client::Session>> session =
      OpenSession(absl::MakeSpan(args->create_options, args->num_options));
  if (!session.ok()) {
    return ToError(std::move(session).status());
  }
  args->client = new PJRT_Client(*std::move(session));
  return nullptr;
}

PJRT_Error* ClientDestroy(PJRT_Client_Destroy_Args* args) {
  delete args->client;
  return nullptr;
}

PJRT_Error* ClientPlatformName(PJRT_Client_PlatformName_Args* args) {
  args->platform_name = args->client->platform_name.data();
  args->platform_name_size = args->client->platform_name.size();
  return nullptr;
}

PJRT_Error* ClientPlatformVersion(PJRT_Client_PlatformVersion_Args* args) {
  args->platform_version = args->client->platform_version.data();
  args->platform_version_size = args->client->platform_version.size();
  return nullptr;
}

PJRT_Error* ClientProcessIndex(PJRT_Client_ProcessIndex_Args* args) {
  args->process_index = 0;
  return nullptr;
}

PJRT_Error* ClientTopologyDescription(PJRT_Client_TopologyDescription_Args* args) {
  args->topology = &args->client->topology;
  return nullptr;
}

PJRT_Error* ClientDevices(PJRT_Client_Devices_Args* args) {
  args->devices = args->client->devices.data();
  args->num_devices = args->client->devices.size();
  return nullptr;
}

PJRT_Error* ClientAddressableDevices(PJRT_Client_AddressableDevices_Args* args) {
  args->addressable_devices = args->client->devices.data();
  args->num_addressable_devices = args->client->devices.size();
  return nullptr;
}

namespace {

PJRT_Error* Lookup(const PJRT_Client& client, int id, PJRT_Device** device) {
  if (id < 0 || static_cast<size_t>(id) >= client.devices.size()) {
    return ToError(absl::InvalidArgumentError(absl::StrCat(
        "there is no device ", id, ": the cluster has ", client.devices.size(), " devices")));
  }
  *device = client.devices[static_cast<size_t>(id)];
  return nullptr;
}

}  // namespace

PJRT_Error* ClientLookupDevice(PJRT_Client_LookupDevice_Args* args) {
  return Lookup(*args->client, args->id, &args->device);
}

PJRT_Error* ClientLookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args* args) {
  return Lookup(*args->client, args->local_hardware_id, &args->addressable_device);
}

PJRT_Error* ClientAddressableMemories(PJRT_Client_AddressableMemories_Args* args) {
  args->addressable_memories = args->client->memories.data();
  args->num_addressable_memories = args->client->memories.size();
  return nullptr;
}

PJRT_Error* ClientDefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args* args) {
  const size_t wanted =
      static_cast<size_t>(args->num_replicas) * static_cast<size_t>(args->num_partitions);
  if (wanted > args->client->devices.size() || wanted > args->default_assignment_size) {
    return ToError(absl::InvalidArgumentError(
        absl::StrCat(args->num_replicas, " replicas of ", args->num_partitions,
                     " partitions do not fit on ", args->client->devices.size(), " devices")));
  }
  for (size_t i = 0; i < wanted; ++i) {
    args->default_assignment[i] = static_cast<int>(i);
  }
  return nullptr;
}

}  // namespace shardway::pjrt_plugin
