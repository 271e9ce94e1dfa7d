#include "shardway/cli/run_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shardway/base/logging.h"
#include "shardway/base/status_macros.h"
#include "shardway/cli/child_process.h"
#include "shardway/cli/find_files.h"
#include "shardway/wire/unique_fd.h"

namespace shardway::cli {
namespace {

constexpr Duration kStartTimeout = std::chrono::seconds(120);

std::string RandomAddress() {
  std::random_device random;
  return absl::StrFormat("unix:@shardway-%d-%08x%08x", getpid(), random(), random());
}

// What the controller writes once it has started: "ok", or the reason why not.
absl::Status AwaitReady(wire::UniqueFd pipe) {
  std::string text;
  const TimePoint deadline = Clock::Real()->Now() + kStartTimeout;
  for (;;) {
    const auto left = (deadline - Clock::Real()->Now()) / std::chrono::milliseconds(1);
    pollfd poll_fd = {.fd = pipe.get(), .events = POLLIN};
    const int ready = poll(&poll_fd, 1, left > 0 ? static_cast<int>(left) : 0);
    if (ready == 0) {
      return absl::DeadlineExceededError("the cluster did not start in time");
    }
    char buffer[4096];
    const ssize_t got = ready < 0 ? ready : read(pipe.get(), buffer, sizeof(buffer));
    if (got < 0 && errno != EINTR) {
      return absl::ErrnoToStatus(errno, "waiting for the cluster");
    }
    if (got == 0) {
      break;
    }
    if (got > 0) {
      text.append(buffer, got);
    }
  }
  if (text == "ok") {
    return absl::OkStatus();
  }
  return absl::UnavailableError(text.empty() ? "its controller ended while starting" : text);
}

absl::StatusOr<ChildProcess> StartController(const ClusterOptions& cluster,
                                             const std::string& address) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "pipe");
  }
  wire::UniqueFd read_end(ends[0]);
  wire::UniqueFd write_end(ends[1]);
  ChildOptions options;
  options.path = OwnPath();
  options.arguments = cluster.ToArguments();
  options.arguments.insert(options.arguments.begin(), "controller");
  options.arguments.push_back("--listen=" + address);
  options.arguments.push_back(absl::StrCat("--ready-fd=", write_end.get()));
  options.keep_fds = {write_end.get()};
  options.own_process_group = true;
  options.death_signal = SIGTERM;
  SHARDWAY_ASSIGN_OR_RETURN(ChildProcess controller, ChildProcess::Start(options));
  write_end.Reset();
  SHARDWAY_RETURN_IF_ERROR(AwaitReady(std::move(read_end)));
  return controller;
}

absl::StatusOr<ChildProcess> StartScript(const std::vector<std::string>& arguments,
                                         const std::string& address) {
  ChildOptions options;
  options.path = FindPython();
  options.arguments = arguments;
  options.environment.emplace_back("SHARDWAY_ADDRESS", address);
  if (std::getenv("JAX_PLATFORMS") == nullptr) {
    options.environment.emplace_back("JAX_PLATFORMS", "shardway");
  }
  return ChildProcess::Start(options);
}

// Hands signals on until the script has ended; its wait status.
int AwaitScript(const sigset_t& signals, ChildProcess& script, ChildProcess& controller) {
  bool controller_lost = false;
  const timespec interval = {.tv_sec = 1, .tv_nsec = 0};
  for (;;) {
    if (const std::optional<int> ended = script.Await(Duration(0))) {
      return *ended;
    }
    if (const std::optional<int> ended = controller.Await(Duration(0)); ended && !controller_lost) {
      controller_lost = true;
      std::fprintf(stderr, "shardway run: the cluster's controller %s\n",
                   DescribeEnd(*ended).c_str());
    }
    siginfo_t info;
    const int signal = sigtimedwait(&signals, &info, &interval);
    // What comes from the terminal has reached the script already: it is in our process group.
    if (signal > 0 && signal != SIGCHLD && info.si_code != SI_KERNEL) {
      script.Signal(signal);
    }
  }
}

}  // namespace

int RunScript(const RunCommand& command) {
  InitLogging("run");
  if (command.python_arguments.empty()) {
    std::fprintf(stderr, "shardway run: which script? (shardway run [options] script.py args…)\n");
    return 2;
  }
  const std::string address = RandomAddress();
  // While the cluster starts, a signal ends this process, and the cluster with it.
  absl::StatusOr<ChildProcess> controller = StartController(command.cluster, address);
  if (!controller.ok()) {
    std::fprintf(stderr, "shardway run: the cluster did not start: %s\n",
                 std::string(controller.status().message()).c_str());
    return 1;
  }
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD}) {
    sigaddset(&signals, signal);
  }
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  absl::StatusOr<ChildProcess> script = StartScript(command.python_arguments, address);
  if (!script.ok()) {
    std::fprintf(stderr, "shardway run: %s\n", std::string(script.status().message()).c_str());
    return 127;
  }
  const int status = AwaitScript(signals, *script, *controller);
  controller->Signal(SIGTERM);
  controller->Await(std::chrono::seconds(2));
  return ExitCode(status);
}

}  // namespace shardway::cli
