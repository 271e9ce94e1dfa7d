// The worker processes of a controller: one per host, each on a socket of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardway/cli/child_process.h"
#include "shardway/wire/channel.h"

namespace shardway::cli {

class WorkerProcesses {
 public:
  // Starts `hosts` of them. Main thread only (see ChildProcess).
  static absl::StatusOr<std::unique_ptr<WorkerProcesses>> Start(int hosts);
  ~WorkerProcesses() { End(); }

  // The controller's ends, by global host number; once.
  std::vector<std::unique_ptr<wire::Channel>> TakeChannels() { return std::move(channels_); }
  // "process 123 was killed by signal 9 (Killed)"; empty when it runs. Thread-safe.
  std::string DescribeLoss(int host);
  // Kills and reaps all.
  void End();

 private:
  std::vector<std::unique_ptr<ChildProcess>> processes_;
  std::vector<std::unique_ptr<wire::Channel>> channels_;
};

}  // namespace shardway::cli
