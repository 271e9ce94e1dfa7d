#include "shardway/worker/ffi_handlers.h"

#include "shardway/base/logging.h"
#include "shardway/collective/spec.h"
#include "shardway/comm/communicator.h"
#include "shardway/device/lapack/handlers.h"
#include "shardway/worker/host_callback.h"

namespace shardway::worker {

void RegisterFfiHandlers(device::Client& devices) {
  const auto add = [&](std::string_view target, void* handler) {
    const absl::Status status = devices.RegisterHandler(target, handler);
    if (!status.ok()) LOG_WARN("{}", status.ToString());
    return status.ok();
  };
  // A plugin that takes none is told about once.
  if (!add(collective::kCustomCallTarget, comm::CollectiveHandler())) return;
  add(kHostCallbackTarget, HostCallbacks::Handler());
  for (const device::lapack::Handler& handler : device::lapack::Handlers()) {
    add(handler.target, handler.function);
  }
}

}  // namespace shardway::worker
