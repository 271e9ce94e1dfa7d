#include "shardway/worker/executor.h"

#include <pthread.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/base/status_macros.h"
#include "shardway/worker/launch_registry.h"

namespace shardway::worker {

Executor::Executor(const ExecutorContext& context, int device)
    : context_(context),
      device_(device),
      cursor_(context.log, device),
      thread_([this] { Loop(); }) {
  pthread_setname_np(thread_.native_handle(), absl::StrCat("device ", device).c_str());
}

Executor::~Executor() { thread_.join(); }

void Executor::Loop() {
  while (Run* run = cursor_.Next()) {
    if (run->program->LogicalId(device_) >= 0) Process(*run);
  }
}

void Executor::Process(Run& run) {
  absl::Status status = Gather(run);
  const bool settled = run.program->settled();
  const bool collective = settled && run.program->loaded().comm != nullptr;
  if (collective) run.Begin(*context_.comm);
  if (settled && run.program->loaded().has_callbacks) {
    context_.launches->Enter(run.launch, run.program->session().id);
  }
  bool consumed = false;
  if (status.ok()) status = run.status();
  if (status.ok()) status = Execute(run, &consumed);
  if (!status.ok()) {
    const absl::Status cause = run.Fail(status);
    // A program that is still being loaded may have collectives, in which other hosts wait.
    if (collective || !settled) context_.comm->AbortLaunch(run.launch, cause);
    PoisonResults(run, cause);
  }
  if (consumed) Consume(run);
  if (run.remaining.fetch_sub(1, std::memory_order_acq_rel) == 1) Finish(run);
}

absl::Status Executor::Gather(Run& run) {
  Program& program = *run.program;
  SHARDWAY_RETURN_IF_ERROR(program.AwaitLoaded(context_.wait_timeout));
  if (program.session().closed.load(std::memory_order_relaxed) ||
      context_.stopping->load(std::memory_order_relaxed)) {
    return absl::CancelledError(
        absl::StrCat("program ", program.name(), " was queued when its session ended"));
  }
  arguments_.clear();
  for (size_t i = 0; i < run.arguments.size(); ++i) {
    const store::Array& array = *run.arguments[i];
    SHARDWAY_RETURN_IF_ERROR(array.poison());
    const std::shared_ptr<store::Shard>* shard = array.OnDevice(device_);
    if (shard == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("program ", program.name(), ": argument ", i,
                                                     " has no shard on device ", device_));
    }
    device::Buffer* buffer = (*shard)->borrowed();
    if (buffer == nullptr) {
      if (!(*shard)->Wait(context_.wait_timeout)) {
        return absl::DeadlineExceededError(absl::StrCat("program ", program.name(), ": argument ",
                                                        i, " did not arrive on device ", device_));
      }
      SHARDWAY_RETURN_IF_ERROR((*shard)->status());
      buffer = (*shard)->borrowed();
    }
    arguments_.push_back(buffer);
  }
  for (const auto& hidden : program.loaded().hidden[device_]) arguments_.push_back(hidden.get());

  non_donatable_.assign(run.keep.begin(), run.keep.end());
  for (uint32_t parameter : program.donated()) {
    if ((*run.arguments[parameter]->OnDevice(device_))->IsShared()) {
      non_donatable_.push_back(parameter);  // a read that was sent before this run still needs it
    }
  }
  return absl::OkStatus();
}

absl::Status Executor::Execute(Run& run, bool* consumed) {
  context_.comm->DeviceStarts(run.launch, device_);
  const absl::Status status = run.program->loaded().executable->Execute(
      {device_, run.launch, arguments_, non_donatable_}, &outputs_, consumed);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat("program ", run.program->name(), " on device ",
                                                    device_, ": ", status.message()));
  }
  if (outputs_.size() != run.results.size()) {
    return absl::InternalError(absl::StrCat("program ", run.program->name(), " made ",
                                            outputs_.size(), " results, ", run.results.size(),
                                            " are expected"));
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    (*run.results[i]->OnDevice(device_))->Fulfil(std::move(outputs_[i]));
  }
  return status;
}

void Executor::Consume(Run& run) {
  for (uint32_t parameter : run.program->donated()) {
    if (std::find(run.keep.begin(), run.keep.end(), parameter) != run.keep.end()) continue;
    (*run.arguments[parameter]->OnDevice(device_))->Donate();
  }
}

void Executor::PoisonResults(Run& run, const absl::Status& cause) {
  for (const auto& result : run.results) (*result->OnDevice(device_))->Poison(cause);
}

void Executor::Finish(Run& run) {
  run.End(*context_.comm);
  if (run.program->settled() && run.program->loaded().has_callbacks) {
    context_.launches->Leave(run.launch);
  }
  run.arguments.clear();
  run.results.clear();
  context_.outbox->Ended(run.id, run.status(),
                         run.has_next() ? Outbox::Urgency::kGather : Outbox::Urgency::kSendNow);
}

}  // namespace shardway::worker
