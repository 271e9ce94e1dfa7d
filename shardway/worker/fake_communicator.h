// A Communicator for tests, without XLA: its collective is a barrier of a launch's local devices,
// in which a FakeClient's `call` line waits; hosts exchange messages through a shared FakeNetwork.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shardway/base/mutex.h"
#include "shardway/comm/communicator.h"

namespace shardway::worker {

// What several FakeCommunicators share. Thread-safe.
class FakeNetwork {
 public:
  void Send(uint64_t key, absl::Span<const char> bytes) {
    MutexLock lock(mutex_);
    messages_[key].assign(bytes.begin(), bytes.end());
    arrived_.NotifyAll();
  }
  absl::Status Receive(uint64_t key, absl::Span<char> bytes) {
    const TimePoint deadline = Clock::Real()->Now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (!messages_.contains(key)) {
      if (Clock::Real()->Now() > deadline) return absl::DeadlineExceededError("nothing came");
      arrived_.WaitFor(mutex_, std::chrono::milliseconds(100));
    }
    const std::string message = std::move(messages_[key]);
    messages_.erase(key);
    if (message.size() != bytes.size()) return absl::DataLossError("another size came");
    std::memcpy(bytes.data(), message.data(), message.size());
    return absl::OkStatus();
  }

 private:
  Mutex mutex_;
  CondVar arrived_;
  std::map<uint64_t, std::string> messages_ SHARDWAY_GUARDED_BY(mutex_);
};

// Thread-safe.
class FakeCommunicator : public comm::Communicator {
 public:
  explicit FakeCommunicator(std::shared_ptr<FakeNetwork> network = nullptr)
      : network_(std::move(network)) {}

  absl::StatusOr<std::shared_ptr<const comm::ProgramComm>> Prepare(
      std::vector<collective::Spec>, std::vector<int> devices) override {
    auto members = std::make_shared<const size_t>(devices.size());
    // Opaque to the worker.
    const auto* opaque = reinterpret_cast<const comm::ProgramComm*>(members.get());
    return std::shared_ptr<const comm::ProgramComm>(std::move(members), opaque);
  }

  void BeginLaunch(comm::LaunchId launch,
                   std::shared_ptr<const comm::ProgramComm> program) override {
    MutexLock lock(mutex_);
    Launch& state = launches_[launch];
    state.members = *reinterpret_cast<const size_t*>(program.get());
    ++begun_;
  }
  void EndLaunch(comm::LaunchId launch) override {
    MutexLock lock(mutex_);
    launches_.erase(launch);
    ++ended_;
  }
  void AbortLaunch(comm::LaunchId launch, const absl::Status& cause) override {
    MutexLock lock(mutex_);
    auto it = launches_.find(launch);
    if (it != launches_.end() && it->second.aborted.ok()) it->second.aborted = cause;
    ++aborted_;
    changed_.NotifyAll();
  }
  void DeviceStarts(comm::LaunchId, int) override {}
  void DeviceOutside(int, int change) override {
    MutexLock lock(mutex_);
    outside_ += change;
  }
  absl::Status Send(uint64_t key, int, absl::Span<const char> bytes) override {
    network_->Send(key, bytes);
    return absl::OkStatus();
  }
  absl::Status Receive(uint64_t key, int, absl::Span<char> bytes) override {
    return network_->Receive(key, bytes);
  }
  void OnTransfer(uint64_t, int, std::function<void()> begun) override { begun(); }
  absl::StatusOr<topology::Link> MeasureLink(comm::LaunchId, int, int, Duration) override {
    return topology::Link{1e-6, 1e9};
  }
  void HostLost(int, const absl::Status&) override {}

  // The barrier: returns when all members of the launch are in it, or with the abort's cause.
  absl::Status Meet(comm::LaunchId launch) {
    const TimePoint deadline = Clock::Real()->Now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    auto it = launches_.find(launch);
    if (it == launches_.end()) return absl::InternalError("the launch has not begun");
    Launch& state = it->second;  // stays: this device has not ended
    const size_t round = state.arrived++ / state.members;
    changed_.NotifyAll();
    while (state.aborted.ok() && state.arrived < (round + 1) * state.members) {
      if (Clock::Real()->Now() > deadline)
        return absl::DeadlineExceededError("a device is missing");
      changed_.WaitFor(mutex_, std::chrono::milliseconds(100));
    }
    return state.aborted;
  }

  int begun() const { return Get(begun_); }
  int ended() const { return Get(ended_); }
  int aborted() const { return Get(aborted_); }
  int outside() const { return Get(outside_); }  // calls to users that have not returned

 private:
  struct Launch {
    size_t members = 0;
    size_t arrived = 0;
    absl::Status aborted;
  };
  int Get(const int& count) const {
    MutexLock lock(mutex_);
    return count;
  }

  const std::shared_ptr<FakeNetwork> network_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<comm::LaunchId, Launch> launches_ SHARDWAY_GUARDED_BY(mutex_);
  int begun_ = 0;
  int ended_ = 0;
  int aborted_ = 0;
  int outside_ = 0;
};

}  // namespace shardway::worker
