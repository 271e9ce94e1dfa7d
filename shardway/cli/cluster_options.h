// The options that describe a cluster, shared by sub-commands.
#pragma once

#include <string>
#include <vector>

#include "shardway/topology/topology.h"

namespace CLI {
class App;
}

namespace shardway::cli {

struct ClusterOptions {
  topology::Shape shape;
  std::string plugin;  // empty: the default one

  void AddTo(CLI::App& command);
  // The same options for a command line.
  std::vector<std::string> ToArguments() const;
};

}  // namespace shardway::cli
