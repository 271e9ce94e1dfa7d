#include "shardway/cli/controller_command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/base/status_macros.h"
#include "shardway/cli/find_files.h"
#include "shardway/cli/worker_processes.h"
#include "shardway/compile/compile.h"
#include "shardway/controller/controller.h"
#include "shardway/front/native_service.h"
#include "shardway/wire/socket.h"
#include "shardway/wire/unique_fd.h"
#include "shardway/worker/daemon.h"

namespace shardway::cli {
namespace {

struct Cluster {
  std::unique_ptr<WorkerProcesses> workers;
  std::unique_ptr<controller::Controller> controller;
};

absl::StatusOr<wire::UniqueFd> CommMemory(uint64_t bytes) {
  wire::UniqueFd fd(memfd_create("shardway-comm", MFD_CLOEXEC));
  if (!fd.valid() || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("shared memory of ", bytes, " bytes"));
  }
  return fd;
}

absl::StatusOr<Cluster> StartCluster(const ControllerCommand& command) {
  const topology::Shape& shape = command.cluster.shape;
  SHARDWAY_RETURN_IF_ERROR(topology::Topology::Create(shape).status());
  controller::ControllerOptions options;
  options.shape = shape;
  options.plugin_path = command.cluster.plugin;
  if (options.plugin_path.empty()) {
    SHARDWAY_ASSIGN_OR_RETURN(options.plugin_path, FindXlaPlugin());
  }
  options.collective_timeout = std::chrono::seconds(command.cluster.collective_timeout_s);
  options.callback_timeout = std::chrono::seconds(command.cluster.callback_timeout_s);
  options.memory_budget = command.cluster.memory_budget;
  options.compile = compile::Compile;
  if (command.cluster.links != ClusterOptions::kMeasured) {
    SHARDWAY_ASSIGN_OR_RETURN(options.link_prices,
                              topology::ParseLinkPrices(command.cluster.links));
  }
  wire::UniqueFd comm;
  if (shape.num_hosts() > 1) {
    options.comm_bytes = worker::SharedMemoryBytes(shape.num_hosts());
    SHARDWAY_ASSIGN_OR_RETURN(comm, CommMemory(options.comm_bytes));
    options.comm_fd = comm.get();
  }
  Cluster cluster;
  SHARDWAY_ASSIGN_OR_RETURN(cluster.workers, WorkerProcesses::Start(shape.num_hosts()));
  options.workers = cluster.workers->TakeChannels();
  options.describe_loss = [workers = cluster.workers.get()](int host) {
    return workers->DescribeLoss(host);
  };
  SHARDWAY_ASSIGN_OR_RETURN(cluster.controller, controller::Controller::Start(std::move(options)));
  return cluster;
}

void TellReady(int fd, const absl::Status& status) {
  if (fd < 0) {
    return;
  }
  const std::string text = status.ok() ? "ok" : std::string(status.message());
  const ssize_t written = write(fd, text.data(), text.size());
  (void)written;
  close(fd);
}

// Threads that serve sessions are never joined: the process ends with _exit.
void AcceptSessions(controller::Controller& controller, const wire::UniqueFd& listener) {
  for (;;) {
    absl::StatusOr<wire::UniqueFd> socket = wire::Accept(listener, std::chrono::hours(24));
    if (socket.ok()) {
      std::thread([&controller, socket = *std::move(socket)]() mutable {
        front::ServeSession(controller, std::move(socket)).IgnoreError();
      }).detach();
    } else if (!absl::IsDeadlineExceeded(socket.status())) {
      LOG_ERROR("cannot accept sessions: {}", socket.status().ToString());
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
  }
}

// Until SIGTERM or SIGHUP (`signals`), `over`, or another parent than `parent`.
void AwaitEnd(const sigset_t& signals, const std::atomic<bool>& over, pid_t parent) {
  const timespec interval = {.tv_sec = 1, .tv_nsec = 0};
  for (;;) {
    siginfo_t info;
    const int signal = sigtimedwait(&signals, &info, &interval);
    if (signal == SIGTERM || signal == SIGHUP || over.load() || getppid() != parent) {
      return;
    }
  }
}

}  // namespace

int RunController(const ControllerCommand& command) {
  InitLogging("controller");
  const pid_t parent = getppid();
  signal(SIGINT, SIG_IGN);  // Ctrl-C is for the user's script
  signal(SIGPIPE, SIG_IGN);
  if (command.ready_fd >= 0) {
    fcntl(command.ready_fd, F_SETFD, FD_CLOEXEC);
  }
  if (command.fd >= 0) {
    fcntl(command.fd, F_SETFD, FD_CLOEXEC);
  }
  const auto fail = [&](const absl::Status& status) {
    TellReady(command.ready_fd, status);
    std::fprintf(stderr, "shardway controller: %s\n", std::string(status.message()).c_str());
    return 1;
  };
  if ((command.fd >= 0) == !command.listen.empty()) {
    return fail(absl::InvalidArgumentError("either --fd or --listen must be given"));
  }
  wire::UniqueFd listener;
  if (!command.listen.empty()) {
    absl::StatusOr<wire::UniqueFd> made = wire::Listen(command.listen);
    if (!made.ok()) {
      return fail(made.status());
    }
    listener = *std::move(made);
  }
  // Until here and while workers start, SIGTERM just ends the process, and its workers with it.
  absl::StatusOr<Cluster> cluster = StartCluster(command);
  if (!cluster.ok()) {
    return fail(cluster.status());
  }

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  TellReady(command.ready_fd, absl::OkStatus());
  LOG_INFO("a cluster of {} is ready", command.cluster.shape.ToString());

  std::atomic<bool> over = false;
  controller::Controller& controller = *cluster->controller;
  if (command.fd >= 0) {
    std::thread([&controller, &over, socket = wire::UniqueFd(command.fd)]() mutable {
      front::ServeSession(controller, std::move(socket)).IgnoreError();
      over.store(true);
      kill(getpid(), SIGTERM);  // wakes AwaitEnd
    }).detach();
  } else {
    std::thread([&] { AcceptSessions(controller, listener); }).detach();
  }
  AwaitEnd(signals, over, parent);
  LOG_INFO("ending");
  controller.Retire();
  cluster->workers->End();
  // Sessions' threads may be anywhere: nothing is destroyed.
  _exit(0);
}

}  // namespace shardway::cli
