#include "shardway/client/controller_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/client/quiet_thread.h"
#include "shardway/wire/socket.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

namespace shardway::client {
namespace {

constexpr Duration kPatience = std::chrono::seconds(2);

struct Launch {
  const char* binary;
  char* const* argv;
  int socket;
  int error_pipe;  // close-on-exec; gets errno when exec fails
  pid_t parent;
};

// Between fork and exec: only async-signal-safe functions.
[[noreturn]] void BecomeController(const Launch& launch) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != launch.parent) _exit(1);  // it died before prctl
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) dup2(null, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // the script's output is the script's
  syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
  wire::KeepOverExec(launch.socket);
  execv(launch.binary, launch.argv);
  const int error = errno;
  const ssize_t written = write(launch.error_pipe, &error, sizeof(error));
  (void)written;
  _exit(127);
}

std::string DescribeEnd(int status) {
  if (WIFEXITED(status)) return absl::StrCat("exited with status ", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return absl::StrCat("was killed by signal ", signal, " (", strsignal(signal), ")");
}

struct Started {
  pid_t pid = -1;
  int error = 0;  // errno of fork or exec
};

}  // namespace

absl::StatusOr<std::unique_ptr<ControllerProcess>> ControllerProcess::Start(
    const std::string& binary, std::vector<std::string> arguments, wire::UniqueFd socket) {
  std::promise<Started> promise;
  std::future<Started> future = promise.get_future();
  auto shared = std::make_shared<Shared>();
  std::thread keeper = StartQuietThread("shardway keeper", [&, shared,
                                                            promise =
                                                                std::move(promise)]() mutable {
    std::vector<char*> argv;
    argv.push_back(const_cast<char*>(binary.c_str()));
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    int pipe_ends[2];
    if (pipe2(pipe_ends, O_CLOEXEC) != 0) {
      promise.set_value({-1, errno});
      return;
    }
    wire::UniqueFd from_child(pipe_ends[0]);
    wire::UniqueFd to_parent(pipe_ends[1]);
    const Launch launch = {binary.c_str(), argv.data(), socket.get(), to_parent.get(), getpid()};
    const pid_t pid = fork();
    if (pid == 0) BecomeController(launch);
    if (pid < 0) {
      promise.set_value({-1, errno});
      return;
    }
    to_parent.Reset();
    int error = 0;
    ssize_t got;
    while ((got = read(from_child.get(), &error, sizeof(error))) < 0 && errno == EINTR) {
    }
    promise.set_value({pid, got == sizeof(error) ? error : 0});
    // From here on nothing of the caller's is touched.
    siginfo_t info;
    while (waitid(P_PID, pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    MutexLock lock(
        shared->mutex);  // Kill must not see a pid that is reaped but not marked as ended
    int status = 0;
    const pid_t reaped = waitpid(pid, &status, WNOHANG);
    shared->ended = true;
    shared->how = reaped == pid ? DescribeEnd(status) : "has ended (somebody else waited for it)";
    shared->changed.NotifyAll();
  });
  const Started started = future.get();
  if (started.error != 0) {
    keeper.join();
    return absl::Status(absl::ErrnoToStatusCode(started.error),
                        absl::StrCat("cannot start the cluster's controller ", binary, ": ",
                                     std::strerror(started.error)));
  }
  LOG_DEBUG("started the controller of a private cluster, pid {}", started.pid);
  return std::unique_ptr<ControllerProcess>(
      new ControllerProcess(started.pid, std::move(shared), std::move(keeper)));
}

ControllerProcess::ControllerProcess(int pid, std::shared_ptr<Shared> shared, std::thread keeper)
    : pid_(pid),
      shared_(std::move(shared)),
      keeper_(std::make_unique<std::thread>(std::move(keeper))),
      owner_(getpid()) {}

ControllerProcess::~ControllerProcess() {
  if (getpid() != owner_) {
    // The thread object's thread does not exist here; neither joining nor destroying it is
    // possible.
    (void)keeper_.release();
    return;
  }
  if (AwaitEnd(kPatience).empty()) {
    Kill();
    LOG_WARN("the controller, pid {}, did not end by itself and was killed", pid_);
  }
  keeper_->join();
}

void ControllerProcess::Kill() {
  MutexLock lock(shared_->mutex);
  if (!shared_->ended) kill(pid_, SIGKILL);
}

std::string ControllerProcess::AwaitEnd(Duration timeout) {
  const TimePoint deadline = std::chrono::steady_clock::now() + timeout;
  MutexLock lock(shared_->mutex);
  while (!shared_->ended) {
    const Duration left = deadline - std::chrono::steady_clock::now();
    if (left <= Duration::zero()) return "";
    shared_->changed.WaitFor(shared_->mutex, left);
  }
  return shared_->how;
}

}  // namespace shardway::client
