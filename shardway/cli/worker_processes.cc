#include "shardway/cli/worker_processes.h"

#include <signal.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/cli/find_files.h"
#include "shardway/wire/socket.h"

namespace shardway::cli {
namespace {

// A worker reads at once whatever it is sent; one that leaves a full ring unread for so long is
// frozen. The rings stay in the cores' caches; what doesn't fit waits in the controller's outbox.
constexpr wire::ChannelOptions kChannelOptions = {.ring_bytes = size_t{256} << 10,
                                                  .send_timeout = std::chrono::seconds(10)};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerProcesses>> WorkerProcesses::Start(int hosts) {
  auto workers = std::make_unique<WorkerProcesses>();
  std::vector<wire::UniqueFd> ours;
  for (int host = 0; host < hosts; ++host) {
    SHARDWAY_ASSIGN_OR_RETURN(auto sockets, wire::SocketPair());
    ChildOptions options;
    options.path = OwnPath();
    options.arguments = {"worker", absl::StrCat("--fd=", sockets.second.get())};
    options.keep_fds = {sockets.second.get()};
    SHARDWAY_ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start(options));
    workers->processes_.push_back(std::make_unique<ChildProcess>(std::move(process)));
    ours.push_back(std::move(sockets.first));
  }
  for (int host = 0; host < hosts; ++host) {
    auto channel = wire::MakeSharedMemoryChannel(std::move(ours[host]), kChannelOptions);
    if (!channel.ok()) {
      const std::string loss = workers->DescribeLoss(host);
      return loss.empty() ? channel.status()
                          : absl::UnavailableError(absl::StrCat("worker ", host, ": ", loss));
    }
    workers->channels_.push_back(*std::move(channel));
  }
  return workers;
}

std::string WorkerProcesses::DescribeLoss(int host) {
  ChildProcess& process = *processes_[host];
  const std::optional<int> ended = process.Await(std::chrono::milliseconds(200));
  return ended ? absl::StrCat("process ", process.pid(), " ", DescribeEnd(*ended)) : "";
}

void WorkerProcesses::End() {
  for (const auto& process : processes_) {
    process->Signal(SIGKILL);
  }
  for (const auto& process : processes_) {
    process->Await(std::chrono::seconds(2));
  }
}

}  // namespace shardway::cli
