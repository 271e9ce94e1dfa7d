#include "shardway/worker/worker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/wire/validate.h"

namespace shardway::worker {

Worker::Worker(Parts parts, Outbox* outbox)
    : parts_(std::move(parts)),
      outbox_(outbox),
      store_(parts_.topology.num_local()),
      callbacks_(&parts_.topology, &launches_, parts_.comm.get(), outbox, parts_.callback_timeout),
      transfers_(parts_.devices.get(), parts_.comm.get(), &parts_.topology, outbox),
      loader_(parts_.devices.get(), parts_.comm.get(), outbox),
      log_(parts_.topology.num_local()) {
  ExecutorContext context;
  context.log = &log_;
  context.comm = parts_.comm.get();
  context.outbox = outbox;
  context.launches = &launches_;
  context.stopping = &stopping_;
  context.wait_timeout = parts_.wait_timeout;
  for (int device = 0; device < parts_.topology.num_local(); ++device) {
    executors_.push_back(std::make_unique<Executor>(context, device));
  }
}

Worker::~Worker() {
  stopping_.store(true);
  for (const auto& [id, session] : sessions_) {
    session.state->closed.store(true);
    callbacks_.Cancel(id);
  }
  log_.Close();
  executors_.clear();
}

void Worker::Handle(wire::ToWorker* message, wire::UniqueFd fd) {
  switch (message->kind_case()) {
    case wire::ToWorker::kSessionOpen:
      return OpenSession(message->session_open(), std::move(fd));
    case wire::ToWorker::kSessionClose:
      return CloseSession(message->session_close());
    case wire::ToWorker::kLoad:
      return Load(message->mutable_load());
    case wire::ToWorker::kRun:
      return Start(message->run());
    case wire::ToWorker::kPoison:
      return Poison(message->poison());
    case wire::ToWorker::kPut:
      return Put(message->put());
    case wire::ToWorker::kAssemble:
      return Assemble(message->assemble());
    case wire::ToWorker::kCopy:
      return Copy(message->copy());
    case wire::ToWorker::kRead:
      return Read(message->read());
    case wire::ToWorker::kFree:
      return Free(message->free());
    case wire::ToWorker::kCallbackReturn:
      return callbacks_.Return(message->callback_return());
    case wire::ToWorker::kPing: {
      wire::FromWorker pong;
      pong.set_pong(message->ping());
      return outbox_->Post(std::move(pong));
    }
    case wire::ToWorker::kMeasureLink:
      return MeasureLink(message->measure_link());
    case wire::ToWorker::kHostLost:
      return parts_.comm->HostLost(message->host_lost().host(),
                                   wire::FromProto(message->host_lost().status()));
    case wire::ToWorker::kConfigure:
    case wire::ToWorker::kShutdown:
    case wire::ToWorker::KIND_NOT_SET:
      LOG_WARN("the controller sent a message that makes no sense here (kind {})",
               static_cast<int>(message->kind_case()));
  }
}

void Worker::MeasureLink(const wire::MeasureLink& message) {
  const absl::StatusOr<topology::Link> link =
      parts_.comm->MeasureLink(static_cast<comm::LaunchId>(message.launch()), message.device(),
                               message.other(), std::chrono::milliseconds(message.timeout_ms()));
  wire::FromWorker answer;
  wire::LinkMeasured& measured = *answer.mutable_link_measured();
  measured.set_launch(message.launch());
  wire::ToProto(link.status(), measured.mutable_status());
  if (link.ok()) {
    measured.set_latency_s(link->latency_s);
    measured.set_bytes_per_s(link->bytes_per_s);
  }
  outbox_->Post(std::move(answer));
}

// ---- sessions ----

void Worker::OpenSession(const wire::SessionOpen& message, wire::UniqueFd fd) {
  const SessionId id{message.session()};
  if (const absl::Status status = store_.OpenSession(id); !status.ok()) {
    LOG_ERROR("{}", status.ToString());
    return;
  }
  Session& session = sessions_[id];
  session.state = std::make_shared<SessionState>(id);
  if (fd.valid()) {
    auto arena = wire::ArenaView::Map(std::move(fd), message.arena_bytes());
    if (arena.ok()) {
      session.arena = *std::move(arena);
    } else {
      LOG_ERROR("session {}: its arena can't be mapped: {}", id.value, arena.status().ToString());
    }
  }
  LOG_INFO("session {} opened, arena of {} bytes", id.value, message.arena_bytes());
}

void Worker::CloseSession(const wire::SessionClose& message) {
  const SessionId id{message.session()};
  auto session = sessions_.find(id);
  if (session == sessions_.end()) return;
  session->second.state->closed.store(true);  // what is queued for it fails
  sessions_.erase(session);
  callbacks_.Cancel(id);
  const size_t arrays = store_.CloseSession(id);
  const size_t programs = programs_.size();
  absl::erase_if(programs_, [id](const auto& entry) { return SessionOf(entry.first) == id; });
  LOG_INFO("session {} closed: {} arrays, {} programs dropped", id.value, arrays,
           programs - programs_.size());
}

const Worker::Session* Worker::FindSession(SessionId session) const {
  auto it = sessions_.find(session);
  return it == sessions_.end() ? nullptr : &it->second;
}

std::shared_ptr<const wire::ArenaView> Worker::ArenaOf(SessionId session) const {
  const Session* found = FindSession(session);
  return found == nullptr ? nullptr : found->arena;
}

// ---- programs and runs ----

void Worker::Load(wire::LoadProgram* message) {
  const ProgramId id{message->program()};
  absl::Status status;
  if (const Session* session = FindSession(SessionOf(id)); session == nullptr) {
    status = absl::NotFoundError(
        absl::StrCat("program ", message->name(), " belongs to no open session"));
  } else if (programs_.contains(id)) {
    status =
        absl::AlreadyExistsError(absl::StrCat("program ", message->name(), " is loaded already"));
  } else {
    auto program = Program::FromMessage(*message, parts_.topology, session->state);
    status = program.status();
    if (status.ok()) {
      programs_[id] = *program;
      return loader_.Load(*std::move(program), std::move(*message));
    }
  }
  wire::FromWorker reply;
  reply.mutable_loaded()->set_program(id.value);
  wire::ToProto(status, reply.mutable_loaded()->mutable_status());
  outbox_->Post(std::move(reply));
}

void Worker::Start(const wire::HostRun& message) {
  auto found = programs_.find(ProgramId{message.program()});
  if (found == programs_.end()) {
    return Refuse(message, absl::NotFoundError(
                               absl::StrCat("run of a program that was never loaded, or freed: ",
                                            LocalId(ProgramId{message.program()}).value)));
  }
  Program& program = *found->second;
  if (static_cast<size_t>(message.arguments_size()) != program.num_parameters() ||
      static_cast<size_t>(message.results_size()) != program.num_results()) {
    return Refuse(message, absl::InvalidArgumentError(absl::StrCat(
                               "program ", program.name(), " takes ", program.num_parameters(),
                               " arguments and makes ", program.num_results(), " results; the run ",
                               "has ", message.arguments_size(), " and ", message.results_size())));
  }
  auto run = std::make_unique<Run>();
  run->id = message.run();
  run->launch = LaunchIdOf(message.run());
  run->program = found->second;
  run->keep.assign(message.keep().begin(), message.keep().end());
  run->arguments.reserve(message.arguments_size());
  for (uint64_t id : message.arguments()) {
    std::shared_ptr<const store::Array> array = store_.Find(ArrayId{id});
    if (array == nullptr) {
      array = std::make_shared<store::Array>(absl::NotFoundError(
          absl::StrCat("an argument of program ", program.name(), " (array ",
                       LocalId(ArrayId{id}).value, ") was never made, or deleted")));
    }
    run->arguments.push_back(std::move(array));
  }
  const std::shared_ptr<store::Account> account = store_.account(program.session().id);
  run->results.reserve(message.results_size());
  for (uint64_t id : message.results()) {
    auto array = std::make_shared<store::Array>();
    array->Reserve(program.participants().size());
    for (int device : program.participants()) {
      array->Add(program.LogicalId(device), std::make_shared<store::Shard>(device, account));
    }
    run->results.push_back(array);
    Insert(id, std::move(array));
  }
  if (program.participants().empty()) {
    return outbox_->Ended(message.run(), absl::OkStatus(), Outbox::Urgency::kPost);
  }
  for (int device : program.participants()) run->wake_bits |= WakeBit(device);
  run->remaining.store(program.participants().size(), std::memory_order_relaxed);
  log_.Append(std::move(run));
}

void Worker::Refuse(const wire::HostRun& message, const absl::Status& cause) {
  parts_.comm->AbortLaunch(LaunchIdOf(message.run()), cause);  // others may wait for this host
  for (uint64_t id : message.results()) Insert(id, std::make_shared<store::Array>(cause));
  outbox_->Ended(message.run(), cause, Outbox::Urgency::kPost);
}

void Worker::Poison(const wire::HostPoison& message) {
  const absl::Status cause = wire::FromProto(message.status());
  for (uint64_t id : message.arrays()) Insert(id, std::make_shared<store::Array>(cause));
  if (message.run() != 0) outbox_->Ended(message.run(), cause, Outbox::Urgency::kPost);
}

// ---- arrays ----

std::shared_ptr<store::Array> Worker::MakePending(ArrayId id,
                                                  absl::Span<const int32_t> devices) const {
  const std::shared_ptr<store::Account> account = store_.account(SessionOf(id));
  auto array = std::make_shared<store::Array>();
  for (size_t i = 0; i < devices.size(); ++i) {
    const int local = parts_.topology.Local(devices[i]);
    if (local >= 0) array->Add(i, std::make_shared<store::Shard>(local, account));
  }
  return array;
}

void Worker::Insert(uint64_t id, std::shared_ptr<const store::Array> array) {
  const absl::Status status = store_.Insert(ArrayId{id}, std::move(array));
  if (!status.ok()) LOG_WARN("{}", status.ToString());
}

void Worker::Put(const wire::HostPut& message) {
  const ArrayId id{message.array()};
  std::shared_ptr<store::Array> array = MakePending(id, message.devices());
  Insert(message.array(), array);
  transfers_.Put(message, ArenaOf(SessionOf(id)), *array);
}

void Worker::Assemble(const wire::HostAssemble& message) {
  Operation operation(message.op(), outbox_);
  auto array = std::make_shared<store::Array>();
  for (int i = 0; i < message.devices_size(); ++i) {
    const int local = parts_.topology.Local(message.devices(i));
    if (local < 0) continue;
    const ArrayId source_id{message.arrays(i)};
    const std::shared_ptr<const store::Array> source = store_.Find(source_id);
    const std::shared_ptr<store::Shard>* found =
        source == nullptr ? nullptr : source->WithIndex(message.shards(i));
    if (found != nullptr && (*found)->device() == local) {
      array->Add(i, *found);
      continue;
    }
    auto missing = std::make_shared<store::Shard>(local, nullptr);
    absl::Status cause = source != nullptr ? source->poison() : absl::OkStatus();
    if (cause.ok()) {
      cause = absl::NotFoundError(absl::StrCat("shard ", message.shards(i), " of array ",
                                               LocalId(source_id).value, " is not on device ",
                                               message.devices(i)));
    }
    operation.Fail(cause);
    missing->Poison(std::move(cause));
    array->Add(i, std::move(missing));
  }
  Insert(message.array(), std::move(array));
}

void Worker::Copy(const wire::HostCopy& message) {
  std::shared_ptr<store::Array> array = MakePending(ArrayId{message.array()}, message.devices());
  Insert(message.array(), array);
  transfers_.Copy(message, store_.Find(ArrayId{message.source()}), *array);
}

void Worker::Read(const wire::HostRead& message) {
  transfers_.Read(message, ArenaOf(SessionId{message.session()}),
                  store_.Find(ArrayId{message.array()}));
}

void Worker::Free(const wire::HostFree& message) {
  for (uint64_t id : message.arrays()) store_.Erase(ArrayId{id});
  for (uint64_t id : message.programs()) programs_.erase(ProgramId{id});
}

}  // namespace shardway::worker
