// The options that describe a cluster, shared by sub-commands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardway/topology/topology.h"

namespace CLI {
class App;
}

namespace shardway::cli {

struct ClusterOptions {
  topology::Shape shape;
  std::string plugin;         // empty: the default one
  int64_t memory_budget = 0;  // bytes per device and session; 0: the machine's memory
  int collective_timeout_s = 60;
  int callback_timeout_s = 600;
  std::string links = kMeasured;  // or what they cost, as topology::LinkPrices writes it

  static constexpr const char* kMeasured = "measured";

  void AddTo(CLI::App& command);
  // The same options for a command line.
  std::vector<std::string> ToArguments() const;
};

}  // namespace shardway::cli
