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
  command
      .add_option("--memory-budget", memory_budget,
                  "bytes per device that a session may use (default: the machine's memory)")
      ->envname("SHARDWAY_MEMORY_BUDGET")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--collective-timeout", collective_timeout_s,
                  "seconds to wait for a device that does not come to a collective")
      ->check(CLI::PositiveNumber)
      ->envname("SHARDWAY_COLLECTIVE_TIMEOUT")
      ->capture_default_str();
  command
      .add_option("--callback-timeout", callback_timeout_s,
                  "seconds for a Python callback of a running program to return")
      ->check(CLI::PositiveNumber)
      ->envname("SHARDWAY_CALLBACK_TIMEOUT")
      ->capture_default_str();
  command
      .add_option("--links", links,
                  "what the compiler takes sending to cost: measured when the cluster starts, or "
                  "hosts=C:B,islands=C:B, a collective and a byte beside 1 inside a host")
      ->envname("SHARDWAY_LINKS")
      ->capture_default_str();
}

std::vector<std::string> ClusterOptions::ToArguments() const {
  std::vector<std::string> arguments = {absl::StrCat("--islands=", shape.islands),
                                        absl::StrCat("--hosts=", shape.hosts),
                                        absl::StrCat("--devices=", shape.devices)};
  arguments.push_back(absl::StrCat("--memory-budget=", memory_budget));
  arguments.push_back(absl::StrCat("--collective-timeout=", collective_timeout_s));
  arguments.push_back(absl::StrCat("--callback-timeout=", callback_timeout_s));
  arguments.push_back("--links=" + links);
  if (!plugin.empty()) {
    arguments.push_back("--plugin=" + plugin);
  }
  return arguments;
}

}  // namespace shardway::cli
