// `shardway run script.py`: a private cluster for one script, gone when it ends.
#pragma once

#include <string>
#include <vector>

#include "shardway/cli/cluster_options.h"

namespace shardway::cli {

struct RunCommand {
  ClusterOptions cluster;
  std::vector<std::string> python_arguments;  // script.py args…, -m module args…, -c code
};

// The script's exit status (128 + signal when one killed it), or 1 when the cluster does not start.
int RunScript(const RunCommand& command);

}  // namespace shardway::cli
