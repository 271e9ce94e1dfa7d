// A program on this host: who executes it, and, once it has been compiled in the background, with
// what.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardway/base/clock.h"
#include "shardway/base/ids.h"
#include "shardway/base/mutex.h"
#include "shardway/comm/communicator.h"
#include "shardway/device/device.h"
#include "shardway/wire/worker.pb.h"
#include "shardway/worker/host_topology.h"

namespace shardway::worker {

// Whether a session still wants what was queued for it.
struct SessionState {
  explicit SessionState(SessionId id) : id(id) {}
  const SessionId id;
  std::atomic<bool> closed{false};
};

// Thread-safe; shared by its runs.
class Program {
 public:
  // What loading gives. Arguments of an execution are the user's, then `hidden` of the device.
  struct Loaded {
    std::shared_ptr<device::Executable> executable;
    std::shared_ptr<const comm::ProgramComm> comm;                     // null: no collectives
    std::vector<std::vector<std::unique_ptr<device::Buffer>>> hidden;  // by local device
    bool has_callbacks = false;
  };

  // INVALID_ARGUMENT for devices that don't exist or appear twice.
  static absl::StatusOr<std::shared_ptr<Program>> FromMessage(
      const wire::LoadProgram& message, const HostTopology& topology,
      std::shared_ptr<const SessionState> session);

  ProgramId id() const { return id_; }
  const std::string& name() const { return name_; }
  const SessionState& session() const { return *session_; }

  // Local devices that execute it, ascending.
  const std::vector<int>& participants() const { return participants_; }
  // The logical id (a shard's number) of a local device; -1: it takes no part.
  int LogicalId(int local_device) const { return logical_[local_device]; }
  // The global ids of all its devices, by logical id.
  const std::vector<int>& devices() const { return devices_; }
  int num_partitions() const { return num_partitions_; }
  size_t num_parameters() const { return num_parameters_; }
  size_t num_results() const { return num_results_; }
  const std::vector<uint32_t>& donated() const { return donated_; }  // parameters

  // Exactly one of these is called, once.
  void SetLoaded(Loaded loaded);
  // `comm`, when not null, lets its launches be aborted on the other hosts.
  void SetFailed(absl::Status cause, std::shared_ptr<const comm::ProgramComm> comm);

  // Waits until it has been loaded or failed. DEADLINE_EXCEEDED after `timeout`.
  absl::Status AwaitLoaded(Duration timeout);
  bool settled() const { return state_.load(std::memory_order_acquire) != State::kLoading; }
  // Once it is settled. `executable` is null when it failed.
  const Loaded& loaded() const { return loaded_; }

 private:
  enum class State : uint8_t { kLoading, kLoaded, kFailed };

  Program() = default;
  void Settle(State state, Loaded loaded, absl::Status status);

  ProgramId id_;
  std::string name_;
  std::shared_ptr<const SessionState> session_;
  std::vector<int> devices_;
  std::vector<int> participants_;
  std::vector<int> logical_;  // by local device
  int num_partitions_ = 1;
  size_t num_parameters_ = 0;
  size_t num_results_ = 0;
  std::vector<uint32_t> donated_;

  std::atomic<State> state_{State::kLoading};
  Mutex mutex_;
  CondVar settled_;
  absl::Status status_ SHARDWAY_GUARDED_BY(mutex_);
  Loaded loaded_;  // written before state_ leaves kLoading
};

}  // namespace shardway::worker
