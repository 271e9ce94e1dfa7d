#include "shardway/worker/daemon.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/base/status_macros.h"
#include "shardway/collective/spec.h"
#include "shardway/comm/communicator.h"
#include "shardway/worker/ffi_handlers.h"

namespace shardway::worker {

uint64_t SharedMemoryBytes(int hosts) { return comm::Communicator::SharedMemoryBytes(hosts); }

absl::StatusOr<Worker::Parts> MakeParts(const wire::Configure& configure,
                                        wire::UniqueFd shared_memory) {
  InitLogging(absl::StrCat("worker ", configure.host()));
  Worker::Parts parts;
  SHARDWAY_ASSIGN_OR_RETURN(parts.topology, HostTopology::FromMessage(configure));

  comm::Communicator::Options options;
  options.host = parts.topology.host;
  options.host_of_device = parts.topology.host_of_device;
  options.local_devices = parts.topology.local_devices;
  if (configure.collective_timeout_ms() > 0) {
    options.timeout = std::chrono::milliseconds(configure.collective_timeout_ms());
  }
  if (configure.callback_timeout_ms() > 0) {
    parts.callback_timeout = std::chrono::milliseconds(configure.callback_timeout_ms());
  }
  options.start_timeout = parts.wait_timeout + options.timeout;
  if (configure.comm_bytes() > 0) {
    options.shared_memory_fd = shared_memory.get();
    options.shared_memory_bytes = configure.comm_bytes();
  }
  SHARDWAY_ASSIGN_OR_RETURN(parts.comm, comm::Communicator::Create(std::move(options)));

  const std::vector<std::string> plugin_options(configure.plugin_options().begin(),
                                                configure.plugin_options().end());
  SHARDWAY_ASSIGN_OR_RETURN(
      parts.devices,
      device::LoadPjrtPlugin(configure.plugin_path(), parts.topology.num_local(), plugin_options));
  RegisterFfiHandlers(*parts.devices);
  LOG_INFO("host {}: {} devices of {}", parts.topology.host, parts.topology.num_local(),
           configure.plugin_path());
  return parts;
}

int RunWorkerMain(int fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == 1) return 1;  // the parent died before we asked to die with it
  signal(SIGINT, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  InitLogging("worker");
  // XLA writes to the user's terminal otherwise; a level that is set stays.
  setenv("TF_CPP_MIN_LOG_LEVEL", "3", /*overwrite=*/0);

  auto channel = wire::MakeSharedMemoryChannel(wire::UniqueFd(fd));
  if (!channel.ok()) {
    LOG_ERROR("no channel to the controller: {}", channel.status().ToString());
    return 1;
  }
  auto* leaked = channel->release();
  const absl::Status status = Serve(*leaked, MakeParts);
  if (!status.ok()) LOG_ERROR("{}", status.ToString());
  spdlog::shutdown();
  // No destructors: programs may still be executing, and the process's end frees all.
  _exit(status.ok() ? 0 : 1);
}

}  // namespace shardway::worker
