// The controller of a cluster: core.h under a lock, with the threads around it. One thread reads
// each worker, a few compile, one keeps time; each session is read by a thread of its door.
//
// Whoever acts on the core does so in a *turn*: lock, handle all messages that are there, start
// what may start, unlock, wake the workers that got something, deliver events to sessions. So the
// cost of a wake-up is shared by all messages of a turn.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardway/base/clock.h"
#include "shardway/base/mutex.h"
#include "shardway/controller/core.h"
#include "shardway/controller/program_store.h"
#include "shardway/topology/links.h"
#include "shardway/topology/topology.h"
#include "shardway/wire/channel.h"
#include "shardway/wire/unique_fd.h"

namespace shardway::controller {

struct ControllerOptions {
  topology::Shape shape;
  std::vector<std::unique_ptr<wire::Channel>> workers;  // by global host number
  std::string plugin_path;
  std::vector<std::string> plugin_options;
  int comm_fd = -1;  // shared memory between the hosts; borrowed during Start
  uint64_t comm_bytes = 0;
  Duration collective_timeout = std::chrono::seconds(60);
  Duration callback_timeout = std::chrono::minutes(10);
  Duration ready_timeout = std::chrono::seconds(60);
  // What links cost; nullopt: measured when the cluster starts.
  std::optional<topology::LinkPrices> link_prices;
  Duration link_timeout = std::chrono::seconds(2);  // to measure one
  // A worker that says nothing for so long, though asked, is lost.
  Duration worker_liveness = std::chrono::seconds(30);
  int64_t memory_budget = 0;  // of a session, bytes per device; 0: what the machine has
  uint64_t arena_bytes = 0;   // of a session; 0: wire::DefaultArenaBytes()
  CompileFunction compile;    // compile::Compile
  int compile_threads = 2;
  scheduler::SchedulerOptions scheduler;
  // What became of the worker of a host whose channel closed ("killed by signal 9"). May be null.
  std::function<std::string(int host)> describe_loss;
  Clock* clock = Clock::Real();
};

// Thread-safe.
class Controller {
 public:
  // Configures the workers and waits until all are ready.
  static absl::StatusOr<std::unique_ptr<Controller>> Start(ControllerOptions options);
  // Sessions must be closed. Tells the workers to end.
  ~Controller();

  // The cluster is about to end: what happens to workers and sessions from here on is nobody's
  // news.
  void Retire();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  const topology::Topology& topology() const { return topology_; }
  const std::string& platform() const { return platform_; }
  const std::string& platform_version() const { return platform_version_; }
  const topology::LinkPrices& link_prices() const { return link_prices_; }

  struct Opened {
    SessionId id;
    wire::UniqueFd arena;
    uint64_t arena_bytes = 0;
  };
  // `memory_budget`: bytes per device; 0: the default.
  absl::StatusOr<Opened> OpenSession(std::string name, std::shared_ptr<SessionSink> sink,
                                     int64_t memory_budget);
  void CloseSession(SessionId id);

  // Messages of one client, in order, passed by wire::Validate; consumed. An error: the client is
  // broken, close its session.
  absl::Status Handle(SessionId session, absl::Span<wire::ClientMessage> messages);

 private:
  class Port;
  class Turn;

  Controller(ControllerOptions options, const topology::Topology& topology);
  absl::Status ConfigureWorkers();
  void SettleLinkPrices();
  void StartThreads();
  void ReadWorker(int host);
  void KeepTime();
  // What became of the worker whose channel failed with `status`. May wait a moment for its end.
  absl::Status LossOf(int host, const absl::Status& status) const;
  absl::Status NotReady(int host, const absl::Status& status) const;

  ControllerOptions options_;
  const topology::Topology topology_;
  std::string platform_;
  std::string platform_version_;
  topology::LinkPrices link_prices_;

  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<std::atomic<int64_t>> last_heard_;  // by host: nanoseconds of the clock
  Mutex mutex_;
  CondVar time_changed_;  // KeepTime has something to do
  bool stopping_ SHARDWAY_GUARDED_BY(mutex_) = false;
  bool resting_ SHARDWAY_GUARDED_BY(mutex_) = false;  // KeepTime sleeps until the next ping
  std::vector<Port*> to_wake_ SHARDWAY_GUARDED_BY(mutex_);
  std::unique_ptr<Core> core_ SHARDWAY_GUARDED_BY(mutex_);
  std::unique_ptr<ProgramStore> programs_;
  std::vector<std::thread> threads_;
};

}  // namespace shardway::controller
