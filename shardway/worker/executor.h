// One device's thread: executes exactly the order of the run log, one run after the other (design
// decision 9). Nothing else runs on it.
//
// A run on a device: wait until its program is compiled and its arguments are there; open the
// communicator's bracket; execute; resolve the results. Whatever goes wrong before or in between
// poisons the results with the first cause and, if the program has collectives, aborts the launch,
// so that no peer waits for this device.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "shardway/base/clock.h"
#include "shardway/comm/communicator.h"
#include "shardway/worker/outbox.h"
#include "shardway/worker/run.h"
#include "shardway/worker/run_log.h"

namespace shardway::worker {

class LaunchRegistry;

// What all executors of a host share. Everything outlives them.
struct ExecutorContext {
  RunLog* log = nullptr;
  comm::Communicator* comm = nullptr;
  Outbox* outbox = nullptr;
  LaunchRegistry* launches = nullptr;  // for programs with callbacks
  const std::atomic<bool>* stopping = nullptr;
  // For a program's compilation and for an argument that is still being made.
  Duration wait_timeout = std::chrono::minutes(30);
};

class Executor {
 public:
  // Starts the thread. All executors of a log are made before its first run.
  Executor(const ExecutorContext& context, int device);
  // The log is closed; waits for the thread.
  ~Executor();

 private:
  void Loop();
  void Process(Run& run);
  // What must hold before the run starts; fills arguments_.
  absl::Status Gather(Run& run);
  absl::Status Execute(Run& run, bool* consumed);
  void Consume(Run& run);
  void PoisonResults(Run& run, const absl::Status& cause);
  void Finish(Run& run);

  const ExecutorContext context_;
  const int device_;
  RunLog::Cursor cursor_;
  // Kept from run to run for their memory.
  std::vector<device::Buffer*> arguments_;
  std::vector<int64_t> non_donatable_;
  std::vector<std::unique_ptr<device::Buffer>> outputs_;
  std::thread thread_;
};

}  // namespace shardway::worker
