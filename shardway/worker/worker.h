// One host: its devices' executors, its part of every array, its programs. Does what the controller
// sends, in the order in which it is sent.
//
// What a message names is looked up while it is read; what takes time happens elsewhere:
//
//   control thread   Handle(): resolve names, make pending results, append to the run log
//   executors        one per device (executor.h)
//   compile, transfer, network, callback threads; the outbox's thread
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "shardway/base/ids.h"
#include "shardway/comm/communicator.h"
#include "shardway/device/device.h"
#include "shardway/store/store.h"
#include "shardway/wire/arena.h"
#include "shardway/wire/unique_fd.h"
#include "shardway/wire/worker.pb.h"
#include "shardway/worker/executor.h"
#include "shardway/worker/host_callback.h"
#include "shardway/worker/host_topology.h"
#include "shardway/worker/launch_registry.h"
#include "shardway/worker/outbox.h"
#include "shardway/worker/program.h"
#include "shardway/worker/program_loader.h"
#include "shardway/worker/run_log.h"
#include "shardway/worker/transfers.h"

namespace shardway::worker {

class Worker {
 public:
  struct Parts {
    HostTopology topology;
    std::unique_ptr<device::Client> devices;
    std::unique_ptr<comm::Communicator> comm;
    Duration wait_timeout = std::chrono::minutes(30);      // for a compilation, for an argument
    Duration callback_timeout = std::chrono::minutes(10);  // for a user's function to return
  };
  // `outbox` outlives it.
  Worker(Parts parts, Outbox* outbox);
  // Fails what is queued, waits for what is executing.
  ~Worker();

  // Does what `message` says, or sees to it that it is done. `fd` came with it. An error in a
  // message is the error of what it asked for (poisoned results, a failed operation), never the
  // worker's. The control thread's; `message` may be consumed.
  void Handle(wire::ToWorker* message, wire::UniqueFd fd);

  const store::Store& store() const { return store_; }

 private:
  struct Session {
    std::shared_ptr<SessionState> state;
    std::shared_ptr<const wire::ArenaView> arena;  // null: none came
  };

  // On the control thread: no session is open yet.
  void MeasureLink(const wire::MeasureLink& message);
  void OpenSession(const wire::SessionOpen& message, wire::UniqueFd fd);
  void CloseSession(const wire::SessionClose& message);
  void Load(wire::LoadProgram* message);
  void Start(const wire::HostRun& message);
  void Poison(const wire::HostPoison& message);
  void Put(const wire::HostPut& message);
  void Assemble(const wire::HostAssemble& message);
  void Copy(const wire::HostCopy& message);
  void Read(const wire::HostRead& message);
  void Free(const wire::HostFree& message);

  const Session* FindSession(SessionId session) const;
  std::shared_ptr<const wire::ArenaView> ArenaOf(SessionId session) const;
  // An array with a pending shard for each of `devices` that is here.
  std::shared_ptr<store::Array> MakePending(ArrayId id, absl::Span<const int32_t> devices) const;
  void Insert(uint64_t id, std::shared_ptr<const store::Array> array);
  // The run will not happen: its results, poisoned.
  void Refuse(const wire::HostRun& message, const absl::Status& cause);

  Parts parts_;
  Outbox* const outbox_;
  std::atomic<bool> stopping_{false};
  store::Store store_;
  absl::flat_hash_map<SessionId, Session> sessions_;
  absl::flat_hash_map<ProgramId, std::shared_ptr<Program>> programs_;
  LaunchRegistry launches_;
  HostCallbacks callbacks_;
  Transfers transfers_;
  ProgramLoader loader_;
  RunLog log_;
  std::vector<std::unique_ptr<Executor>> executors_;
};

}  // namespace shardway::worker
