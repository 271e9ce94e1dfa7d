// The controller of a private cluster: a child process of this one.
//
// It is forked from a thread of its own that lives as long as the child does: the kernel's
// parent-death signal fires when the forking *thread* ends, and the caller's may be short-lived.
// The child has its own process group (Ctrl-C is for the user's script), no standard input, and
// none of our descriptors but its socket. It ends with this process by that signal and by the
// socket's end.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "shardway/base/clock.h"
#include "shardway/base/mutex.h"
#include "shardway/wire/unique_fd.h"

namespace shardway::client {

class ControllerProcess {
 public:
  // Runs `binary` with `arguments`; `socket` becomes the child's descriptor `socket.get()`. An
  // error when it can't be executed.
  static absl::StatusOr<std::unique_ptr<ControllerProcess>> Start(
      const std::string& binary, std::vector<std::string> arguments, wire::UniqueFd socket);
  // Ends the process: waits for it to go by itself (its socket should be closed by now), then kills
  // it. In a forked child of ours: nothing.
  ~ControllerProcess();

  int pid() const { return pid_; }
  void Kill();
  // Waits until it has ended: "exited with status 1", "was killed by signal 9 (Killed)"; empty when
  // it still runs after `timeout`.
  std::string AwaitEnd(Duration timeout);

 private:
  // Shared with the keeping thread.
  struct Shared {
    Mutex mutex;
    CondVar changed;
    bool ended SHARDWAY_GUARDED_BY(mutex) = false;
    std::string how SHARDWAY_GUARDED_BY(mutex);
  };
  explicit ControllerProcess(int pid, std::shared_ptr<Shared> shared, std::thread keeper);

  const int pid_;
  const std::shared_ptr<Shared> shared_;
  std::unique_ptr<std::thread> keeper_;
  const int owner_;  // the process that started it
};

}  // namespace shardway::client
