// A child process that doesn't outlive this one.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "shardway/base/clock.h"
#include "shardway/base/mutex.h"

namespace shardway::cli {

struct ChildOptions {
  std::string path;                                              // with no '/': looked for in PATH
  std::vector<std::string> arguments;                            // without the program's own name
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  std::vector<int> keep_fds;       // stay open in the child, at the same number
  bool own_process_group = false;  // the terminal's Ctrl-C and Ctrl-Z don't reach it
  int death_signal = 9;            // what it gets when this process dies
};

// Thread-safe, but Start must be called on a thread that lives as long as the process (the main
// one): the kernel sends the death signal when the forking thread ends.
class ChildProcess {
 public:
  // An error when the program can't be executed.
  static absl::StatusOr<ChildProcess> Start(const ChildOptions& options);
  ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();  // kills it (SIGKILL) when it still runs, and reaps it

  pid_t pid() const { return pid_; }
  void Signal(int signal);
  // The wait status once the child has ended; nullopt when it still runs after `timeout`.
  std::optional<int> Await(Duration timeout);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}

  pid_t pid_;
  Mutex mutex_;  // a pid is not signalled after it was reaped
  std::optional<int> ended_ SHARDWAY_GUARDED_BY(mutex_);
};

// "exited with status 1", "was killed by signal 9 (Killed)".
std::string DescribeEnd(int wait_status);
// What a shell would report: the exit status, or 128 + signal.
int ExitCode(int wait_status);

}  // namespace shardway::cli
