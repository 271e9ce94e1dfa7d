#include "shardway/controller/core.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/controller/boundary_proto.h"
#include "shardway/wire/validate.h"

namespace shardway::controller {

Core::Core(const topology::Topology& topology, std::vector<WorkerPort*> ports,
           scheduler::SchedulerOptions options)
    : topology_(topology), slices_(topology), scheduler_(topology.num_hosts(), options) {
  hosts_.resize(ports.size());
  for (size_t i = 0; i < ports.size(); ++i) {
    hosts_[i].port = ports[i];
  }
  all_hosts_.resize(ports.size());
  std::iota(all_hosts_.begin(), all_hosts_.end(), 0);
}

Core::~Core() = default;

SessionId Core::OpenSession(std::string name, std::shared_ptr<SessionSink> sink,
                            int64_t memory_budget, int arena_fd, uint64_t arena_bytes) {
  auto session = std::make_unique<Session>();
  session->id = SessionId{next_session_++};
  session->name = name;
  session->sink = std::move(sink);
  session->queue = scheduler_.AddSession(std::move(name), /*weight=*/1.0, memory_budget);
  wire::ToWorker message;
  message.mutable_session_open()->set_session(session->id.value);
  message.mutable_session_open()->set_arena_bytes(arena_bytes);
  for (int host : all_hosts_) {
    SendTo(host, message, arena_fd);
  }
  const SessionId id = session->id;
  sessions_.emplace(id.value, std::move(session));
  return id;
}

void Core::CloseSession(SessionId id) {
  auto it = sessions_.find(id.value);
  if (it == sessions_.end()) {
    return;
  }
  Session* session = it->second.get();
  for (auto& [op, in_flight] : in_flight_) {
    if (in_flight.session == session) {
      in_flight.session = nullptr;
    }
  }
  scheduler_.RemoveSession(session->queue);
  absl::erase_if(reads_, [&](const auto& read) { return read.second.session == id; });
  for (auto call = calls_.begin(); call != calls_.end();) {
    auto current = call++;
    if (current->second.session == id) {
      wire::ToWorker reply;
      reply.mutable_callback_return()->set_call(current->second.worker_call);
      wire::ToProto(absl::CancelledError("the client is gone"),
                    reply.mutable_callback_return()->mutable_status());
      SendTo(current->second.host, reply);
      calls_.erase(current);
    }
  }
  std::erase(with_events_, session);
  wire::ToWorker message;
  message.mutable_session_close()->set_session(id.value);
  SendToHosts(all_hosts_, message);
  sessions_.erase(it);
}

void Core::ProgramCompiled(const CompileTask& task, absl::StatusOr<program::ProgramPtr> result) {
  Session* session = FindSession(task.session);
  if (session == nullptr) {
    return;
  }
  auto it = session->programs.find(task.program);
  if (it == session->programs.end()) {
    return;  // freed meanwhile
  }
  ProgramEntry& entry = it->second;
  absl::StatusOr<std::shared_ptr<const program::PlacedProgram>> placed =
      result.ok() ? program::Place(*result, entry.slice) : result.status();
  if (placed.ok()) {
    const compile::Partitioned& program = **result;
    wire::ToWorker message;
    wire::LoadProgram& load = *message.mutable_load();
    load.set_program(GlobalId(session->id, ProgramId{entry.id}).value);
    load.set_name(program.name);
    load.set_text(program.text);
    load.set_manifest(program.manifest);
    load.mutable_devices()->Assign(entry.slice->devices.begin(), entry.slice->devices.end());
    load.set_num_partitions(program.num_partitions);
    load.set_uses_coordinates(program.uses_coordinates);
    for (const compile::Boundary& parameter : program.parameters) {
      ToProto(parameter, load.add_parameters());
    }
    for (const compile::Boundary& value : program.results) {
      ToProto(value, load.add_results());
    }
    for (const compile::HiddenConstant& constant : program.constants) {
      wire::LoadProgram::Constant& to = *load.add_constants();
      to.set_element(static_cast<uint32_t>(constant.element));
      to.mutable_dims()->Assign(constant.dims.begin(), constant.dims.end());
      to.set_data(constant.bytes.data(), constant.bytes.size());
    }
    load.set_xla_options(task.xla_options);
    SendToHosts(entry.slice->hosts, message);
    entry.placed = *placed;
  } else {
    entry.status = placed.status();
  }
  EventsOf(*session).compiled.push_back({entry.id, std::move(placed)});
}

void Core::Tick(TimePoint now) {
  for (scheduler::Waiting& expired : scheduler_.Expired(now)) {
    Operation& op = static_cast<WaitingOperation*>(expired.work.get())->operation;
    Fail(op, scheduler_.ExhaustedError(expired.gang), /*was_queued=*/true);
  }
}

void Core::EndTurn(TimePoint now) {
  for (;;) {
    FlushFrees();  // before what may need the room
    while (std::optional<scheduler::Waiting> next = scheduler_.Next(now)) {
      Operation& op = static_cast<WaitingOperation*>(next->work.get())->operation;
      op.gang = next->gang;
      Dispatch(op, /*was_queued=*/true);
    }
    FlushFrees();
    if (broken_ports_.empty()) {
      return;
    }
    const auto [host, status] = std::move(broken_ports_.back());
    broken_ports_.pop_back();
    WorkerLost(host, status, now);
  }
}

std::vector<Core::Delivery> Core::TakeEvents() {
  std::vector<Delivery> deliveries;
  deliveries.reserve(with_events_.size());
  for (Session* session : with_events_) {
    deliveries.emplace_back(session->sink, std::move(session->events));
    session->events = {};
    session->has_events = false;
  }
  with_events_.clear();
  return deliveries;
}

size_t Core::live_arrays(SessionId id) {
  Session* session = FindSession(id);
  return session == nullptr ? 0 : session->arrays.size();
}

Session* Core::FindSession(SessionId id) {
  auto it = sessions_.find(id.value);
  return it == sessions_.end() ? nullptr : it->second.get();
}

SessionEvents& Core::EventsOf(Session& session) {
  if (!session.has_events) {
    session.has_events = true;
    with_events_.push_back(&session);
  }
  return session.events;
}

}  // namespace shardway::controller
