// Client messages: checked against what the session has, turned into operations.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/controller/core.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/validate.h"

namespace shardway::controller {
namespace {

uint64_t Global(const Session& session, uint64_t local) {
  return GlobalId(session.id, ArrayId{local}).value;
}

absl::StatusOr<program::ArrayLayoutPtr> MakeLayout(uint32_t element,
                                                   absl::Span<const int64_t> shard_dims,
                                                   const topology::Slice* slice) {
  auto layout = std::make_shared<program::ArrayLayout>();
  layout->element = static_cast<ElementType>(element);
  layout->shard_dims.assign(shard_dims.begin(), shard_dims.end());
  layout->slice = slice;
  SHARDWAY_ASSIGN_OR_RETURN(layout->shard_bytes, wire::ShardBytes(element, shard_dims));
  return program::ArrayLayoutPtr(std::move(layout));
}

// Numbers in the order in which they occur.
class Names {
 public:
  int Of(int number) {
    return names_.try_emplace(number, static_cast<int>(names_.size())).first->second;
  }

 private:
  absl::flat_hash_map<int, int> names_;
};

// As compile::Request has it; empty where all devices are at one place.
std::vector<topology::Place> PlacesOf(absl::Span<const int> devices,
                                      const topology::Topology& topology) {
  Names islands, hosts;
  std::vector<topology::Place> places;
  places.reserve(devices.size());
  for (int device : devices) {
    places.push_back({islands.Of(topology.IslandOf(device)), hosts.Of(topology.HostOf(device))});
  }
  if (std::all_of(places.begin(), places.end(),
                  [](const topology::Place& place) { return place == topology::Place(); })) {
    places.clear();
  }
  return places;
}

}  // namespace

absl::Status Core::Handle(SessionId id, wire::ClientMessage& message, TimePoint now,
                          std::vector<CompileTask>* tasks) {
  Session* session = FindSession(id);
  if (session == nullptr) {
    return absl::UnavailableError("the session is closed");
  }
  switch (message.kind_case()) {
    case wire::ClientMessage::kRun:
      return Run(*session, message.run(), now);
    case wire::ClientMessage::kPut:
      return Put(*session, *message.mutable_put(), now);
    case wire::ClientMessage::kAssemble:
      return Assemble(*session, message.assemble(), now);
    case wire::ClientMessage::kCopy:
      return Copy(*session, message.copy(), now);
    case wire::ClientMessage::kCompile:
      return Compile(*session, *message.mutable_compile(), tasks);
    case wire::ClientMessage::kRead:
      Read(*session, message.read());
      return absl::OkStatus();
    case wire::ClientMessage::kFree:
      Free(*session, message.free());
      return absl::OkStatus();
    case wire::ClientMessage::kCallbackReturn:
      CallbackReturn(*session, *message.mutable_callback_return());
      return absl::OkStatus();
    case wire::ClientMessage::kMemoryStats: {
      const scheduler::MemoryBudget& memory = scheduler_.memory(session->queue);
      EventsOf(*session).memory.push_back({message.memory_stats().request(),
                                           memory.UsedOn(message.memory_stats().device()),
                                           memory.budget()});
      return absl::OkStatus();
    }
    case wire::ClientMessage::kCancelRead:
      CancelRead(*session, message.cancel_read());
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(absl::StrCat("a client sent a message of kind ",
                                                     static_cast<int>(message.kind_case()),
                                                     " in the middle of its session"));
  }
}

absl::Status Core::Put(Session& session, wire::PutArray& message, TimePoint now) {
  Operation& op = scratch_;
  op.Reset(&session, message.seq());
  SHARDWAY_ASSIGN_OR_RETURN(const topology::Slice* slice, slices_.Intern(message.devices()));
  SHARDWAY_ASSIGN_OR_RETURN(program::ArrayLayoutPtr layout,
                            MakeLayout(message.element(), message.shard_dims(), slice));
  op.gang = {.session = session.queue, .slice = slice, .bytes = layout->shard_bytes};
  SHARDWAY_RETURN_IF_ERROR(AddOutput(op, message.array(), std::move(layout)));

  wire::HostPut& put = *op.message.mutable_put();
  put.Clear();
  put.set_array(Global(session, message.array()));
  put.set_element(message.element());
  put.mutable_shard_dims()->Swap(message.mutable_shard_dims());
  put.mutable_devices()->Swap(message.mutable_devices());
  put.mutable_offsets()->Swap(message.mutable_offsets());
  put.mutable_inline_data()->swap(*message.mutable_inline_data());
  put.mutable_inline_shard()->Swap(message.mutable_inline_shard());
  Submit(op, now);
  return absl::OkStatus();
}

absl::Status Core::Assemble(Session& session, const wire::Assemble& message, TimePoint now) {
  Operation& op = scratch_;
  op.Reset(&session, message.seq());
  SHARDWAY_RETURN_IF_ERROR(AddOutput(op, message.array(), nullptr));

  absl::Status status;
  std::vector<int> devices;
  program::ArrayLayoutPtr first;
  for (int i = 0; i < message.arrays_size() && status.ok(); ++i) {
    absl::StatusOr<Array*> part = Input(op, message.arrays(i));
    if (!part.ok()) {
      status = part.status();
      break;
    }
    const program::ArrayLayoutPtr& layout = (*part)->layout;
    const uint32_t shard = message.shards(i);
    if (shard >= layout->slice->devices.size()) {
      status =
          absl::InvalidArgumentError(absl::StrCat("assemble: array ", message.arrays(i), ", ",
                                                  layout->ToString(), ", has no shard ", shard));
    } else if (first != nullptr &&
               (first->element != layout->element || first->shard_dims != layout->shard_dims)) {
      status = absl::InvalidArgumentError(absl::StrCat(
          "assemble: the shards are not alike: ", first->ToString(), " and ", layout->ToString()));
    } else {
      devices.push_back(layout->slice->devices[shard]);
      if (first == nullptr) {
        first = layout;
      }
    }
  }
  const topology::Slice* slice = nullptr;
  if (status.ok()) {
    absl::StatusOr<const topology::Slice*> interned = slices_.Intern(devices);
    status = interned.status();
    if (interned.ok()) {
      slice = *interned;
    }
  }
  if (!status.ok()) {
    Fail(op, status, /*was_queued=*/false);
    return absl::OkStatus();
  }
  auto layout = std::make_shared<program::ArrayLayout>(*first);
  layout->slice = slice;
  session.arrays.Find(message.array())->layout = std::move(layout);
  op.gang = {.session = session.queue, .slice = slice};

  wire::HostAssemble& assemble = *op.message.mutable_assemble();
  assemble.Clear();
  assemble.set_array(Global(session, message.array()));
  for (uint64_t array : message.arrays()) {
    assemble.add_arrays(Global(session, array));
  }
  assemble.mutable_shards()->CopyFrom(message.shards());
  assemble.mutable_devices()->Assign(slice->devices.begin(), slice->devices.end());
  Submit(op, now);
  return absl::OkStatus();
}

absl::Status Core::Copy(Session& session, const wire::Copy& message, TimePoint now) {
  Operation& op = scratch_;
  op.Reset(&session, message.seq());
  SHARDWAY_ASSIGN_OR_RETURN(const topology::Slice* slice, slices_.Intern(message.devices()));
  SHARDWAY_RETURN_IF_ERROR(AddOutput(op, message.array(), nullptr));

  absl::StatusOr<Array*> source = Input(op, message.source());
  if (!source.ok()) {
    Fail(op, source.status(), /*was_queued=*/false);
    return absl::OkStatus();
  }
  const topology::Slice* from = (*source)->layout->slice;
  auto layout = std::make_shared<program::ArrayLayout>(*(*source)->layout);
  layout->slice = slice;
  if (from->devices.size() != slice->devices.size()) {
    Fail(op,
         absl::InvalidArgumentError(
             absl::StrCat("copy: ", (*source)->layout->ToString(), " has ", from->devices.size(),
                          " shards and cannot be copied to ", slice->devices.size(), " devices")),
         /*was_queued=*/false);
    return absl::OkStatus();
  }
  op.gang = {.session = session.queue, .slice = slice, .bytes = layout->shard_bytes};
  std::set_union(from->hosts.begin(), from->hosts.end(), slice->hosts.begin(), slice->hosts.end(),
                 std::back_inserter(op.hosts_of_copy));

  wire::HostCopy& copy = *op.message.mutable_copy();
  copy.Clear();
  copy.set_array(Global(session, message.array()));
  copy.set_source(Global(session, message.source()));
  copy.mutable_source_devices()->Assign(from->devices.begin(), from->devices.end());
  copy.mutable_devices()->CopyFrom(message.devices());
  copy.set_element(static_cast<uint32_t>(layout->element));
  copy.mutable_shard_dims()->Assign(layout->shard_dims.begin(), layout->shard_dims.end());
  session.arrays.Find(message.array())->layout = std::move(layout);
  Submit(op, now);
  return absl::OkStatus();
}

absl::Status Core::Run(Session& session, const wire::Run& message, TimePoint now) {
  auto found = session.programs.find(message.program());
  if (found == session.programs.end()) {
    return absl::InvalidArgumentError(absl::StrCat("run: no program ", message.program()));
  }
  ProgramEntry& entry = found->second;
  Operation& op = scratch_;
  op.Reset(&session, message.seq());

  absl::Status status = entry.status;
  const program::PlacedProgram* placed = entry.placed.get();
  if (status.ok() && placed == nullptr) {
    status = absl::FailedPreconditionError(
        absl::StrCat("run: program ", message.program(), " is not compiled yet"));
  }
  if (status.ok() && message.arguments_size() != static_cast<int>(placed->parameters.size())) {
    status = absl::InvalidArgumentError(
        absl::StrCat(placed->program->name, ": called with ", message.arguments_size(),
                     " arguments, it takes ", placed->parameters.size()));
  }
  if (status.ok() && message.results_size() != static_cast<int>(placed->results.size())) {
    status = absl::InvalidArgumentError(absl::StrCat(placed->program->name, ": called for ",
                                                     message.results_size(), " results, it has ",
                                                     placed->results.size()));
  }
  for (int i = 0; i < message.results_size(); ++i) {
    SHARDWAY_RETURN_IF_ERROR(
        AddOutput(op, message.results(i), status.ok() ? placed->results[i] : nullptr));
  }
  if (!status.ok()) {
    Fail(op, status, /*was_queued=*/false);
    return absl::OkStatus();
  }

  op.program = &entry;
  op.gang = {.session = session.queue,
             .slice = placed->slice,
             .bytes = placed->result_bytes,
             .program = GlobalId(session.id, ProgramId{entry.id}).value};
  wire::HostRun& run = *op.message.mutable_run();
  run.Clear();
  run.set_program(op.gang.program);
  // Inputs are marked as given away only when all have passed.
  for (int i = 0; i < message.arguments_size() && status.ok(); ++i) {
    const uint64_t id = message.arguments(i);
    absl::StatusOr<Array*> input = Input(op, id);
    if (!input.ok()) {
      status = input.status();
      break;
    }
    status = placed->CheckArgument(i, *(*input)->layout);
    run.add_arguments(Global(session, id));
    if (placed->program->parameters[i].donated &&
        std::find(message.keep().begin(), message.keep().end(), i) == message.keep().end()) {
      op.consumed.push_back(id);
    }
  }
  for (uint64_t id : op.consumed) {
    if (!status.ok()) {
      break;
    }
    if (std::count(op.inputs.begin(), op.inputs.end(), id) > 1) {
      status = absl::InvalidArgumentError(absl::StrCat(
          placed->program->name, ": array ", id, " is donated and given as another argument too"));
    }
  }
  if (!status.ok()) {
    Fail(op, status, /*was_queued=*/false);
    return absl::OkStatus();
  }
  for (uint64_t id : op.consumed) {
    Array& array = *session.arrays.Find(id);
    array.donated = true;
    if (array.holders == 0 && array.parts == nullptr) {
      op.gang.bytes -= array.layout->shard_bytes;  // its memory goes to the results
    }
  }
  for (uint64_t id : message.results()) {
    run.add_results(Global(session, id));
  }
  run.mutable_keep()->CopyFrom(message.keep());
  Submit(op, now);
  return absl::OkStatus();
}

absl::Status Core::Compile(Session& session, wire::Compile& message,
                           std::vector<CompileTask>* tasks) {
  auto [it, added] = session.programs.try_emplace(message.program());
  if (!added) {
    return absl::InvalidArgumentError(
        absl::StrCat("compile: program id ", message.program(), " is in use"));
  }
  ProgramEntry& entry = it->second;
  entry.id = message.program();
  wire::CompileOptions& options = *message.mutable_options();
  absl::StatusOr<const topology::Slice*> slice = slices_.Intern(options.devices());
  absl::Status status = slice.status();
  if (slice.ok()) {
    entry.slice = *slice;
    if (options.num_replicas() * options.num_partitions() != options.devices_size()) {
      status = absl::InvalidArgumentError(absl::StrCat(
          "compile: ", options.num_replicas(), " replicas of ", options.num_partitions(),
          " partitions were asked for on ", options.devices_size(), " devices"));
    } else {
      status = LostHostOf((*slice)->hosts);
    }
  }
  if (!status.ok()) {
    entry.status = status;
    EventsOf(session).compiled.push_back({entry.id, status});
    return absl::OkStatus();
  }
  CompileTask task;
  task.session = session.id;
  task.program = entry.id;
  task.request.artifact =
      std::make_shared<const std::string>(std::move(*message.mutable_artifact()));
  task.request.num_replicas = options.num_replicas();
  task.request.num_partitions = options.num_partitions();
  task.request.allow_propagation_to_parameters.assign(
      options.allow_propagation_to_parameters().begin(),
      options.allow_propagation_to_parameters().end());
  task.request.allow_propagation_to_results.assign(options.allow_propagation_to_results().begin(),
                                                   options.allow_propagation_to_results().end());
  task.request.use_shardy = options.use_shardy();
  task.request.places = PlacesOf((*slice)->devices, topology_);
  task.request.link_prices = link_prices_;
  task.xla_options = std::move(*options.mutable_xla_options());
  tasks->push_back(std::move(task));
  return absl::OkStatus();
}

void Core::Read(Session& session, const wire::Read& message) {
  const auto fail = [&](absl::Status status) {
    EventsOf(session).reads.push_back({message.request(), std::move(status), ""});
  };
  Array* array = session.arrays.Find(message.array());
  if (array == nullptr || array->freed || array->donated) {
    return fail(absl::InvalidArgumentError(
        absl::StrCat("read: array ", message.array(), " was deleted or donated")));
  }
  if (!array->poison.ok()) {
    return fail(array->poison);
  }
  const program::ArrayLayout& layout = *array->layout;
  if (message.shard() >= layout.slice->devices.size()) {
    return fail(absl::InvalidArgumentError(
        absl::StrCat("read: ", layout.ToString(), " has no shard ", message.shard())));
  }
  const int64_t bytes = layout.shard_bytes;
  if (message.size() == 0 ? bytes > static_cast<int64_t>(wire::kMaxInlineBytes)
                          : message.size() != static_cast<uint64_t>(bytes)) {
    return fail(absl::InvalidArgumentError(
        absl::StrCat("read: a shard of ", layout.ToString(), " has ", bytes,
                     " bytes, the block for them ", message.size())));
  }
  const WaitingRead read = {message.request(), message.shard(), message.offset(), message.size()};
  if (array->made) {
    SendRead(session, message.array(), *array, read);
  } else {
    ++array->queued;
    session.waiting_reads[message.array()].push_back(read);
  }
}

void Core::CancelRead(Session& session, uint64_t request) {
  // A read that the worker has may be writing already: its end is reported as usual.
  for (auto it = session.waiting_reads.begin(); it != session.waiting_reads.end(); ++it) {
    auto read = std::find_if(it->second.begin(), it->second.end(),
                             [&](const WaitingRead& r) { return r.request == request; });
    if (read == it->second.end()) {
      continue;
    }
    const uint64_t array = it->first;
    it->second.erase(read);
    if (it->second.empty()) {
      session.waiting_reads.erase(it);
    }
    EventsOf(session).reads.push_back({request, absl::CancelledError("read: cancelled"), ""});
    --session.arrays.Find(array)->queued;
    MaybeErase(session, array);
    return;
  }
}

void Core::Free(Session& session, const wire::Free& message) {
  for (uint64_t id : message.arrays()) {
    if (Array* array = session.arrays.Find(id); array != nullptr && !array->freed) {
      array->freed = true;
      MaybeErase(session, id);
    }
  }
  for (uint64_t id : message.programs()) {
    if (auto it = session.programs.find(id); it != session.programs.end()) {
      it->second.freed = true;
      MaybeErase(session, it->second);
    }
  }
}

void Core::CallbackReturn(Session& session, wire::CallbackReturn& message) {
  auto it = calls_.find(message.call());
  if (it == calls_.end() || it->second.session != session.id) {
    return;  // its worker is lost
  }
  wire::ToWorker reply;
  message.set_call(it->second.worker_call);
  reply.mutable_callback_return()->Swap(&message);
  SendTo(it->second.host, reply);
  calls_.erase(it);
}

}  // namespace shardway::controller
