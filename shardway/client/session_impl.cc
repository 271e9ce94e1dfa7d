#include "shardway/client/session_impl.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/client/quiet_thread.h"
#include "shardway/client/strided_copy.h"
#include "shardway/wire/protocol.h"

namespace shardway::client {
namespace {

template <typename T>
void Leak(T&& value) {
  new std::remove_reference_t<T>(std::forward<T>(value));
}

// Which shards of a put have the same bytes: replicated arrays travel once.
struct UniqueShards {
  explicit UniqueShards(absl::Span<const HostShard> shards) {
    absl::flat_hash_map<const void*, uint32_t> by_data;
    index.reserve(shards.size());
    for (const HostShard& shard : shards) {
      const auto [found, added] = by_data.try_emplace(shard.data, unique.size());
      if (added || unique[found->second]->byte_strides != shard.byte_strides) {
        found->second = static_cast<uint32_t>(unique.size());
        unique.push_back(&shard);
      }
      index.push_back(found->second);
    }
  }
  std::vector<const HostShard*> unique;
  std::vector<uint32_t> index;  // of each shard, into `unique`
};

Boundary FromWire(wire::BoundaryProto& proto) {
  Boundary boundary;
  boundary.element = static_cast<ElementType>(proto.element());
  boundary.global_dims.assign(proto.global_dims().begin(), proto.global_dims().end());
  boundary.local_dims.assign(proto.local_dims().begin(), proto.local_dims().end());
  boundary.op_sharding = std::move(*proto.mutable_op_sharding());
  boundary.is_token = proto.is_token();
  boundary.donated = proto.donated();
  boundary.alias_result = proto.alias_result();
  boundary.memory_kind = std::move(*proto.mutable_memory_kind());
  return boundary;
}

}  // namespace

SessionImpl::SessionImpl(std::unique_ptr<wire::Channel> channel,
                         std::unique_ptr<ControllerProcess> process, const Options& options,
                         std::unique_ptr<wire::ArenaAllocator> arena, const wire::Welcome& welcome)
    : options_(options),
      channel_(std::move(channel)),
      process_(std::move(process)),
      arena_(std::move(arena)),
      platform_(welcome.platform()),
      platform_version_(welcome.platform_version()),
      link_prices_(welcome.link_prices()),
      limits_{welcome.devices_size(), arena_->bytes()},
      callbacks_(
          std::make_shared<CallbackThreads>([channel = channel_](const wire::ClientMessage& reply) {
            // When it fails the session is ending; the reader finds out.
            channel->Send(reply).IgnoreError();
          })),
      tracker_(std::make_unique<DoneTracker>()),
      threads_(std::make_unique<Threads>()) {
  for (const wire::DeviceInfo& device : welcome.devices()) {
    devices_.push_back({device.id(), device.island(), device.host(), device.local(),
                        std::vector<int>(device.coords().begin(), device.coords().end())});
  }
  threads_->reader = StartQuietThread("shardway reader", [this] { ReaderMain(); });
  threads_->housekeeper = StartQuietThread("shardway house", [this] { HousekeeperMain(); });
}

SessionImpl::~SessionImpl() {
  if (!guard_.InOwner()) {
    // A forked child: the threads are the parent's, and so is whoever waits. The process object and
    // the channel know by themselves.
    Leak(std::move(threads_));
    Leak(std::move(tracker_));
    Leak(std::move(reads_));
    Leak(std::move(compiles_));
    Leak(std::move(waiting_reads_));
    Leak(std::shared_ptr<CallbackThreads>(callbacks_));
    return;
  }
  {
    MutexLock lock(house_mutex_);
    stopping_ = true;
    threads_->house_wake.NotifyAll();
  }
  callbacks_->Stop();
  NoteCause("it was closed by this process");
  channel_->Close();
  threads_->housekeeper.join();
  threads_->reader.join();
}

absl::Status SessionImpl::CheckOwner() const {
  if (guard_.InOwner()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this process was forked from the one that has the session; start new processes with 'spawn' "
      "instead of 'fork' to use devices in them");
}

// ---- makers ----

template <typename Fill>
void SessionImpl::Launch(ArrayId first, int count, DoneCallback done, const Fill& fill) {
  absl::Status over;
  {
    MutexLock lock(send_mutex_);
    const uint64_t seq = ++last_seq_;
    over = tracker_->Begin(seq, first, count, &done);
    if (over.ok()) {
      fill(seq, scratch_);
      Send(scratch_);
    }
  }
  if (!over.ok() && done) done(over);
}

absl::StatusOr<ArrayId> SessionImpl::Put(const ArraySpec& spec,
                                         absl::Span<const HostShard> shards) {
  SHARDWAY_RETURN_IF_ERROR(CheckOwner());
  SHARDWAY_ASSIGN_OR_RETURN(const uint64_t bytes,
                            wire::ShardBytes(static_cast<uint32_t>(spec.element), spec.shard_dims));
  if (shards.empty() || shards.size() != spec.devices.size()) {
    return absl::InvalidArgumentError(absl::StrCat("an array of ", shards.size(), " shards on ",
                                                   spec.devices.size(), " devices"));
  }
  for (int device : spec.devices) {
    if (device < 0 || device >= limits_.num_devices) {
      return absl::InvalidArgumentError(
          absl::StrCat("device ", device, " does not exist; there are ", limits_.num_devices));
    }
  }
  const UniqueShards parts(shards);
  const size_t count = parts.unique.size();
  auto pack = [&](char* to, const HostShard& shard) {
    CopyStrided(to, static_cast<const char*>(shard.data), spec.shard_dims, shard.byte_strides,
                ElementBytes(spec.element));
  };

  std::string inline_data;
  Blocks blocks;
  const bool is_inline = bytes * count <= wire::kMaxInlineBytes;
  if (is_inline) {
    inline_data.resize(bytes * count);
    for (size_t i = 0; i < count; ++i) pack(inline_data.data() + i * bytes, *parts.unique[i]);
  } else {
    SHARDWAY_ASSIGN_OR_RETURN(blocks, AwaitBlocks(bytes, count));
    for (size_t i = 0; i < count; ++i) pack(arena_->Address(blocks[i]), *parts.unique[i]);
  }

  const ArrayId array = NewArrays(1);
  DoneCallback done;
  if (!is_inline) done = [this, blocks](const absl::Status&) { FreeBlocks(blocks); };
  Launch(array, 1, std::move(done), [&](uint64_t seq, wire::ClientMessage& message) {
    wire::PutArray* put = message.mutable_put();
    put->Clear();
    put->set_seq(seq);
    put->set_array(array.value);
    put->set_element(static_cast<uint32_t>(spec.element));
    put->mutable_shard_dims()->Add(spec.shard_dims.begin(), spec.shard_dims.end());
    put->mutable_devices()->Add(spec.devices.begin(), spec.devices.end());
    for (uint32_t index : parts.index) {
      is_inline ? put->add_inline_shard(index) : put->add_offsets(blocks[index]);
    }
    put->set_inline_data(std::move(inline_data));
  });
  return array;
}

ArrayId SessionImpl::Assemble(absl::Span<const ArrayId> arrays, absl::Span<const uint32_t> shards) {
  if (!guard_.InOwner()) return {};
  const ArrayId array = NewArrays(1);
  Launch(array, 1, nullptr, [&](uint64_t seq, wire::ClientMessage& message) {
    wire::Assemble* assemble = message.mutable_assemble();
    assemble->Clear();
    assemble->set_seq(seq);
    assemble->set_array(array.value);
    for (ArrayId source : arrays) assemble->add_arrays(source.value);
    assemble->mutable_shards()->Add(shards.begin(), shards.end());
  });
  return array;
}

ArrayId SessionImpl::Copy(ArrayId source, absl::Span<const int> devices) {
  if (!guard_.InOwner()) return {};
  const ArrayId array = NewArrays(1);
  Launch(array, 1, nullptr, [&](uint64_t seq, wire::ClientMessage& message) {
    wire::Copy* copy = message.mutable_copy();
    copy->Clear();
    copy->set_seq(seq);
    copy->set_array(array.value);
    copy->set_source(source.value);
    copy->mutable_devices()->Add(devices.begin(), devices.end());
  });
  return array;
}

ArrayId SessionImpl::Run(ProgramId program, absl::Span<const ArrayId> arguments, int num_results,
                         absl::Span<const uint32_t> keep, DoneCallback done) {
  if (!guard_.InOwner()) {
    if (done) done(CheckOwner());
    return {};
  }
  // Runs alone wait, which JAX launches without Python's lock: what makes room may need the lock.
  if (!OnQuietThread()) tracker_->AwaitRoom();
  const ArrayId first = NewArrays(num_results);
  Launch(first, num_results, std::move(done), [&](uint64_t seq, wire::ClientMessage& message) {
    wire::Run* run = message.mutable_run();
    run->Clear();
    run->set_seq(seq);
    run->set_program(program.value);
    run->mutable_arguments()->Reserve(static_cast<int>(arguments.size()));
    for (ArrayId argument : arguments) run->mutable_arguments()->AddAlreadyReserved(argument.value);
    run->mutable_results()->Reserve(num_results);
    for (int i = 0; i < num_results; ++i) {
      run->mutable_results()->AddAlreadyReserved(first.value + i);
    }
    run->mutable_keep()->Add(keep.begin(), keep.end());
  });
  return first;
}

// ---- programs ----

absl::StatusOr<Program> SessionImpl::Compile(std::string artifact, const CompileOptions& options) {
  SHARDWAY_RETURN_IF_ERROR(CheckOwner());
  const ProgramId id = {next_program_.fetch_add(1)};
  wire::ClientMessage message;
  wire::Compile* compile = message.mutable_compile();
  compile->set_program(id.value);
  compile->set_artifact(std::move(artifact));
  wire::CompileOptions* proto = compile->mutable_options();
  proto->set_num_replicas(options.num_replicas);
  proto->set_num_partitions(options.num_partitions);
  proto->mutable_devices()->Add(options.devices.begin(), options.devices.end());
  for (bool allow : options.allow_propagation_to_parameters) {
    proto->add_allow_propagation_to_parameters(allow);
  }
  for (bool allow : options.allow_propagation_to_results) {
    proto->add_allow_propagation_to_results(allow);
  }
  proto->set_use_shardy(options.use_shardy);
  proto->set_xla_options(options.xla_options);

  SHARDWAY_ASSIGN_OR_RETURN(wire::Compiled answer, Ask(compiles_, id.value, message));
  Program program;
  program.id = id;
  program.name = std::move(*answer.mutable_name());
  for (auto& parameter : *answer.mutable_parameters()) {
    program.parameters.push_back(FromWire(parameter));
  }
  for (auto& result : *answer.mutable_results()) program.results.push_back(FromWire(result));
  for (auto& inspection : *answer.mutable_inspections()) {
    program.inspections.push_back(
        {std::move(*inspection.mutable_callback()), std::move(*inspection.mutable_op_sharding())});
  }
  program.devices = options.devices;
  program.flops_per_device = answer.flops_per_device();
  program.text = std::move(*answer.mutable_text());
  return program;
}

absl::StatusOr<Session::MemoryStats> SessionImpl::DeviceMemory(int device) {
  SHARDWAY_RETURN_IF_ERROR(CheckOwner());
  const uint64_t request = next_request_.fetch_add(1);
  {
    MutexLock lock(send_mutex_);
    SendFrees();
  }
  wire::ClientMessage message;
  message.mutable_memory_stats()->set_request(request);
  message.mutable_memory_stats()->set_device(device);
  SHARDWAY_ASSIGN_OR_RETURN(const wire::MemoryStats stats, Ask(memory_stats_, request, message));
  return MemoryStats{.bytes_in_use = stats.bytes_in_use(), .bytes_limit = stats.bytes_limit()};
}

// ---- questions ----

template <typename Answer>
absl::StatusOr<Answer> SessionImpl::Ask(Questions<Answer>& questions, uint64_t id,
                                        const wire::ClientMessage& message) {
  const auto pending = std::make_shared<Pending<Answer>>();
  {
    MutexLock lock(pending_mutex_);
    if (!lost_.ok()) return lost_;
    questions.emplace(id, pending);
  }
  {
    MutexLock lock(send_mutex_);
    Send(message);
  }
  return pending->Await();
}

template <typename Answer>
void SessionImpl::EndQuestion(Questions<Answer>& questions, uint64_t id, absl::Status status,
                              Answer answer) {
  std::shared_ptr<Pending<Answer>> pending;
  {
    MutexLock lock(pending_mutex_);
    const auto found = questions.find(id);
    if (found == questions.end()) return;
    pending = std::move(found->second);
    questions.erase(found);
  }
  pending->End(std::move(status), std::move(answer));
}

void SessionImpl::FinishCompile(wire::Compiled compiled) {
  const uint64_t program = compiled.program();
  absl::Status status = wire::FromProto(compiled.status());
  EndQuestion(compiles_, program, std::move(status), std::move(compiled));
}

void SessionImpl::FinishMemoryStats(wire::MemoryStats stats) {
  const uint64_t request = stats.request();
  EndQuestion(memory_stats_, request, absl::OkStatus(), std::move(stats));
}

void SessionImpl::SetCallbackHandler(CallbackHandler handler) {
  if (guard_.InOwner()) callbacks_->SetHandler(std::move(handler));
}

// ---- readiness and freeing ----

void SessionImpl::OnReady(ArrayId array, DoneCallback callback) {
  if (!guard_.InOwner()) return callback(CheckOwner());
  tracker_->OnReady(array, std::move(callback));
}

void SessionImpl::OnAllEnded(absl::AnyInvocable<void() &&> callback) {
  if (!guard_.InOwner()) return std::move(callback)();
  tracker_->OnAllEnded(std::move(callback));
}

bool SessionImpl::IsReady(ArrayId array) { return !guard_.InOwner() || tracker_->IsReady(array); }

void SessionImpl::Free(ArrayId array) {
  if (!guard_.InOwner() || !tracker_->Free(array)) return;
  MutexLock lock(house_mutex_);
  freed_arrays_.push_back(array.value);
  frees_waiting_.store(true, std::memory_order_relaxed);
  if (house_idle_) threads_->house_wake.NotifyOne();
}

void SessionImpl::FreeProgram(ProgramId program) {
  if (!guard_.InOwner() || !program.valid()) return;
  MutexLock lock(house_mutex_);
  freed_programs_.push_back(program.value);
  frees_waiting_.store(true, std::memory_order_relaxed);
  if (house_idle_) threads_->house_wake.NotifyOne();
}

// ---- sending ----

void SessionImpl::Send(const wire::ClientMessage& message) {
  absl::Status status;
  if (frees_waiting_.load(std::memory_order_relaxed)) {
    wire::Batch batch(*channel_);
    status = channel_->Send(message);
    SendFrees();  // after the message: another thread's free of an argument must not overtake it
  } else {
    status = channel_->Send(message);
  }
  if (!status.ok()) {
    // The reader sees the channel's end and fails what is outstanding; here locks are held.
    NoteCause(std::string(status.message()));
    channel_->Close();
  }
}

void SessionImpl::SendFrees() {
  {
    MutexLock lock(house_mutex_);
    // A read that waits for room in the arena has not been sent yet; its array must live until
    // then.
    if (!waiting_reads_.empty()) return;
    frees_waiting_.store(false, std::memory_order_relaxed);
    if (freed_arrays_.empty() && freed_programs_.empty()) return;
    wire::Free* free = free_message_.mutable_free();
    free->Clear();
    free->mutable_arrays()->Add(freed_arrays_.begin(), freed_arrays_.end());
    free->mutable_programs()->Add(freed_programs_.begin(), freed_programs_.end());
    freed_arrays_.clear();
    freed_programs_.clear();
  }
  channel_->Send(free_message_).IgnoreError();  // a lost session frees by itself
}

}  // namespace shardway::client
