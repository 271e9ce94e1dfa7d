// `shardway controller`: the controller process of a cluster on this machine.
#pragma once

#include <string>

#include "shardway/cli/cluster_options.h"

namespace shardway::cli {

struct ControllerCommand {
  ClusterOptions cluster;
  int fd = -1;         // serve the client on this inherited socket, and end with it
  std::string listen;  // serve whoever connects to this address, until SIGTERM
  int ready_fd = -1;   // told "ok" or the error once the cluster has started, and closed
};

// Runs until it is told to end or its parent is gone. The exit code.
int RunController(const ControllerCommand& command);

}  // namespace shardway::cli
