// The controller's end of the way to one worker.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace shardway::controller {

// Not thread-safe: used with the controller's lock held.
class WorkerPort {
 public:
  virtual ~WorkerPort() = default;

  // Sends a serialized ToWorker. An error means that the worker is lost; later calls do nothing.
  virtual absl::Status Send(std::string_view message, int fd = -1) = 0;
};

}  // namespace shardway::controller
