// From accepted to sent.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/controller/core.h"

namespace shardway::controller {
namespace {

void SetNumber(wire::ToWorker& message, uint64_t op) {
  switch (message.kind_case()) {
    case wire::ToWorker::kRun:
      message.mutable_run()->set_run(op);
      break;
    case wire::ToWorker::kPut:
      message.mutable_put()->set_op(op);
      break;
    case wire::ToWorker::kAssemble:
      message.mutable_assemble()->set_op(op);
      break;
    case wire::ToWorker::kCopy:
      message.mutable_copy()->set_op(op);
      break;
    default:
      break;
  }
}

}  // namespace

absl::Status Core::AddOutput(Operation& op, uint64_t id, program::ArrayLayoutPtr layout) {
  Array* array = op.session->arrays.Add(id);
  if (array == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("array id ", id, " is in use"));
  }
  array->layout = std::move(layout);
  op.outputs.push_back(id);
  return absl::OkStatus();
}

absl::StatusOr<Array*> Core::Input(Operation& op, uint64_t id) {
  Array* array = op.session->arrays.Find(id);
  if (array == nullptr || array->freed || array->donated ||
      std::find(op.outputs.begin(), op.outputs.end(), id) != op.outputs.end()) {
    return absl::InvalidArgumentError(absl::StrCat("array ", id, " was deleted or donated"));
  }
  if (!array->poison.ok()) {
    return array->poison;
  }
  op.inputs.push_back(id);
  return array;
}

void Core::Submit(Operation& op, TimePoint now) {
  if (absl::Status status = scheduler_.Check(op.gang); !status.ok()) {
    Fail(op, status, /*was_queued=*/false);
    return;
  }
  if (scheduler_.Start(op.gang, now)) {
    Dispatch(op, /*was_queued=*/false);
    return;
  }
  for (uint64_t id : op.inputs) {
    ++op.session->arrays.Find(id)->queued;
  }
  for (uint64_t id : op.outputs) {
    ++op.session->arrays.Find(id)->queued;
  }
  if (op.program != nullptr) {
    ++op.program->queued;
  }
  auto waiting = std::make_unique<WaitingOperation>();
  std::swap(waiting->operation, op);
  const scheduler::Gang gang = waiting->operation.gang;
  scheduler_.Enqueue(gang, std::move(waiting));
}

absl::Status Core::MayDispatch(const Operation& op) {
  if (op.program != nullptr && !op.program->status.ok()) {
    return op.program->status;
  }
  for (uint64_t id : op.inputs) {
    if (const Array* array = op.session->arrays.Find(id); !array->poison.ok()) {
      return array->poison;
    }
  }
  return LostHostOf(op.hosts());
}

void Core::Dispatch(Operation& op, bool was_queued) {
  Session& session = *op.session;
  if (was_queued || num_lost_ > 0) {
    if (absl::Status status = MayDispatch(op); !status.ok()) {
      scheduler_.Abandoned(op.gang);
      Fail(op, status, was_queued);
      return;
    }
  }
  const uint64_t number = next_op_++;
  SetNumber(op.message, number);
  SendToHosts(op.hosts(), op.message);

  InFlight& in_flight = in_flight_[number];
  in_flight.session = &session;
  in_flight.seq = op.seq;
  in_flight.gang = op.gang;
  in_flight.remaining = HostSet(op.hosts());
  in_flight.outputs = op.outputs;

  const bool assembled = op.message.kind_case() == wire::ToWorker::kAssemble;
  for (uint64_t id : op.outputs) {
    Array& array = *session.arrays.Find(id);
    array.made = true;
    array.sent = true;
    array.last_op = number;
    if (assembled) {
      array.parts = std::make_unique<std::vector<uint64_t>>(op.inputs.begin(), op.inputs.end());
    } else {
      array.charged = array.layout->shard_bytes;
    }
  }
  for (uint64_t id : op.consumed) {
    Array& array = *session.arrays.Find(id);
    if (array.holders == 0 && array.parts == nullptr) {
      array.charged = 0;  // the results' charge has it
    }
  }
  for (uint64_t id : op.inputs) {
    Array& array = *session.arrays.Find(id);
    array.last_op = number;
    array.holders += assembled;
    if (was_queued) {
      --array.queued;
      MaybeErase(session, id);
    }
  }
  if (was_queued) {
    for (uint64_t id : op.outputs) {
      --session.arrays.Find(id)->queued;
      AnswerWaitingReads(session, id);
      MaybeErase(session, id);
    }
    if (op.program != nullptr) {
      --op.program->queued;
      MaybeErase(session, *op.program);
    }
  }
}

void Core::Fail(Operation& op, const absl::Status& status, bool was_queued) {
  Session& session = *op.session;
  // It has not started: what it was to consume is whole.
  for (uint64_t id : op.consumed) {
    session.arrays.Find(id)->donated = false;
  }
  for (uint64_t id : op.outputs) {
    Array& array = *session.arrays.Find(id);
    array.made = true;
    array.poison = status;
    array.queued -= was_queued;
    AnswerWaitingReads(session, id);
    MaybeErase(session, id);
  }
  if (was_queued) {
    for (uint64_t id : op.inputs) {
      --session.arrays.Find(id)->queued;
      MaybeErase(session, id);
    }
    if (op.program != nullptr) {
      --op.program->queued;
      MaybeErase(session, *op.program);
    }
  }
  EventsOf(session).failures.push_back({op.seq, status});
}

void Core::SendToHosts(absl::Span<const int> hosts, const wire::ToWorker& message) {
  message.SerializeToString(&bytes_);
  for (int host : hosts) {
    if (Host& to = hosts_[host]; to.lost.ok()) {
      if (absl::Status status = to.port->Send(bytes_); !status.ok()) {
        broken_ports_.emplace_back(host, status);
      }
    }
  }
}

void Core::SendTo(int host, const wire::ToWorker& message, int fd) {
  message.SerializeToString(&bytes_);
  if (Host& to = hosts_[host]; to.lost.ok()) {
    if (absl::Status status = to.port->Send(bytes_, fd); !status.ok()) {
      broken_ports_.emplace_back(host, status);
    }
  }
}

void Core::SendRead(Session& session, uint64_t id, const Array& array, const WaitingRead& read) {
  const int host = topology_.HostOf(array.layout->slice->devices[read.shard]);
  const uint64_t request = next_request_++;
  reads_[request] = {session.id, read.request, host};
  wire::ToWorker message;
  wire::HostRead& to_host = *message.mutable_read();
  to_host.set_request(request);
  to_host.set_session(session.id.value);
  to_host.set_array(GlobalId(session.id, ArrayId{id}).value);
  to_host.set_shard(read.shard);
  to_host.set_offset(read.offset);
  to_host.set_size(read.size);
  SendTo(host, message);
}

void Core::AnswerWaitingReads(Session& session, uint64_t id) {
  if (session.waiting_reads.empty()) {
    return;
  }
  auto node = session.waiting_reads.extract(id);
  if (node.empty()) {
    return;
  }
  Array& array = *session.arrays.Find(id);
  for (const WaitingRead& read : node.mapped()) {
    if (array.poison.ok()) {
      SendRead(session, id, array, read);
    } else {
      EventsOf(session).reads.push_back({read.request, array.poison, ""});
    }
    --array.queued;
  }
}

}  // namespace shardway::controller
