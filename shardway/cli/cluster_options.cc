#include "shardway/cli/cluster_options.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"

namespace shardway::cli {

void ClusterOptions::AddTo(CLI::App& command) {
  command.add_option("--islands", shape.islands, "groups of hosts with a fast interconnect inside")
      ->capture_default_str();
  command.add_option("--hosts", shape.hosts, "hosts (worker processes) per island")
      ->capture_default_str();
  command.add_option("--devices", shape.devices, "devices per host")->capture_default_str();
  command.add_option("--plugin", plugin, "the workers' PJRT plugin (default: the CPU wheel's)");
}

std::vector<std::string> ClusterOptions::ToArguments() const {
  std::vector<std::string> arguments = {absl::StrCat("--islands=", shape.islands),
                                        absl::StrCat("--hosts=", shape.hosts),
                                        absl::StrCat("--devices=", shape.devices)};
  if (!plugin.empty()) {
    arguments.push_back("--plugin=" + plugin);
  }
  return arguments;
}

}  // namespace shardway::cli
