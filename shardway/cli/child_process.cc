#include "shardway/cli/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "shardway/wire/socket.h"
#include "shardway/wire/unique_fd.h"

extern char** environ;

namespace shardway::cli {
namespace {

std::vector<std::string> MergedEnvironment(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    bool replaced = false;
    for (const auto& [name, value] : added) {
      replaced |=
          std::strncmp(*entry, name.c_str(), name.size()) == 0 && (*entry)[name.size()] == '=';
    }
    if (!replaced) {
      merged.push_back(*entry);
    }
  }
  for (const auto& [name, value] : added) {
    merged.push_back(absl::StrCat(name, "=", value));
  }
  return merged;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) {
    pointers.push_back(string.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

struct Exec {
  const char* path;
  char* const* argv;
  char* const* envp;
  const std::vector<int>* keep_fds;
  bool own_process_group;
  int death_signal;
  pid_t parent;
  int error_pipe;  // close-on-exec; gets errno when exec fails
};

// Between fork and exec: only async-signal-safe functions.
[[noreturn]] void BecomeChild(const Exec& exec) {
  if (exec.own_process_group) {
    setpgid(0, 0);
  }
  prctl(PR_SET_PDEATHSIG, exec.death_signal);
  if (getppid() != exec.parent) {
    _exit(1);  // it died before prctl
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGINT, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  for (int fd : *exec.keep_fds) {
    wire::KeepOverExec(fd);
  }
  execvpe(exec.path, exec.argv, exec.envp);
  const int error = errno;
  const ssize_t written = write(exec.error_pipe, &error, sizeof(error));
  (void)written;
  _exit(127);
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const ChildOptions& options) {
  std::vector<std::string> arguments = options.arguments;
  arguments.insert(arguments.begin(), options.path);
  std::vector<std::string> environment = MergedEnvironment(options.environment);
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(environment);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "pipe");
  }
  wire::UniqueFd from_child(ends[0]);
  wire::UniqueFd to_parent(ends[1]);
  const Exec exec = {
      options.path.c_str(),      argv.data(),          envp.data(), &options.keep_fds,
      options.own_process_group, options.death_signal, getpid(),    to_parent.get()};
  const pid_t pid = fork();
  if (pid < 0) {
    return absl::ErrnoToStatus(errno, "fork");
  }
  if (pid == 0) {
    BecomeChild(exec);
  }
  ChildProcess child(pid);
  to_parent.Reset();
  int error = 0;
  ssize_t got;
  while ((got = read(from_child.get(), &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  if (got == sizeof(error)) {
    child.Await(std::chrono::seconds(1));
    return absl::ErrnoToStatus(error, absl::StrCat("cannot run ", options.path));
  }
  return child;
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    Signal(SIGKILL);
    Await(std::chrono::seconds(5));
  }
}

void ChildProcess::Signal(int signal) {
  MutexLock lock(mutex_);
  if (!ended_) {
    kill(pid_, signal);
  }
}

std::optional<int> ChildProcess::Await(Duration timeout) {
  const TimePoint deadline = Clock::Real()->Now() + timeout;
  for (;;) {
    {
      MutexLock lock(mutex_);
      int status = 0;
      if (!ended_ && waitpid(pid_, &status, WNOHANG) == pid_) {
        ended_ = status;
      }
      if (ended_) {
        return ended_;
      }
    }
    if (Clock::Real()->Now() >= deadline) {
      return std::nullopt;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::string DescribeEnd(int wait_status) {
  if (WIFEXITED(wait_status)) {
    return absl::StrCat("exited with status ", WEXITSTATUS(wait_status));
  }
  const int signal = WTERMSIG(wait_status);
  return absl::StrCat("was killed by signal ", signal, " (", strsignal(signal), ")");
}

int ExitCode(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

}  // namespace shardway::cli
