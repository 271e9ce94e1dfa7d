#include "shardway/worker/program.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace shardway::worker {

absl::StatusOr<std::shared_ptr<Program>> Program::FromMessage(
    const wire::LoadProgram& message, const HostTopology& topology,
    std::shared_ptr<const SessionState> session) {
  std::shared_ptr<Program> program(new Program);
  program->id_ = ProgramId{message.program()};
  program->name_ = message.name();
  program->session_ = std::move(session);
  program->devices_.assign(message.devices().begin(), message.devices().end());
  program->logical_.assign(topology.num_local(), -1);
  for (int logical = 0; logical < message.devices_size(); ++logical) {
    const int device = message.devices(logical);
    if (!topology.Knows(device)) {
      return absl::InvalidArgumentError(absl::StrCat("program ", message.name(), " names device ",
                                                     device, ", which does not exist"));
    }
    const int local = topology.Local(device);
    if (local < 0) continue;
    if (program->logical_[local] >= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("program ", message.name(), " names device ", device, " twice"));
    }
    program->logical_[local] = logical;
  }
  for (int local = 0; local < topology.num_local(); ++local) {
    if (program->logical_[local] >= 0) program->participants_.push_back(local);
  }
  program->num_partitions_ = message.num_partitions() > 0 ? message.num_partitions() : 1;
  program->num_parameters_ = message.parameters_size();
  program->num_results_ = message.results_size();
  for (int i = 0; i < message.parameters_size(); ++i) {
    if (message.parameters(i).donated()) program->donated_.push_back(i);
  }
  return program;
}

void Program::SetLoaded(Loaded loaded) {
  Settle(State::kLoaded, std::move(loaded), absl::OkStatus());
}

void Program::SetFailed(absl::Status cause, std::shared_ptr<const comm::ProgramComm> comm) {
  Loaded nothing;
  nothing.comm = std::move(comm);
  Settle(State::kFailed, std::move(nothing), std::move(cause));
}

void Program::Settle(State state, Loaded loaded, absl::Status status) {
  MutexLock lock(mutex_);
  loaded_ = std::move(loaded);
  status_ = std::move(status);
  state_.store(state, std::memory_order_release);
  settled_.NotifyAll();
}

absl::Status Program::AwaitLoaded(Duration timeout) {
  if (state_.load(std::memory_order_acquire) == State::kLoaded) return absl::OkStatus();
  const TimePoint deadline = Clock::Real()->Now() + timeout;
  MutexLock lock(mutex_);
  while (state_.load(std::memory_order_relaxed) == State::kLoading) {
    const Duration left = deadline - Clock::Real()->Now();
    if (left <= Duration::zero()) {
      return absl::DeadlineExceededError(
          absl::StrCat("program ", name_, " is not compiled after ",
                       std::chrono::duration_cast<std::chrono::seconds>(timeout).count(), " s"));
    }
    settled_.WaitFor(mutex_, left);
  }
  return status_;
}

}  // namespace shardway::worker
