// PJRT_LoadedExecutable_Execute: N lists of per-shard buffers become one Run on whole arrays.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "shardway/pjrt_plugin/array.h"
#include "shardway/pjrt_plugin/buffer.h"
#include "shardway/pjrt_plugin/client.h"
#include "shardway/pjrt_plugin/error.h"
#include "shardway/pjrt_plugin/executable.h"

namespace shardway::pjrt_plugin {
namespace {

// The arguments of one launch as whole arrays. Those that had to be put together are held until the
// launch is on its way.
class Arguments {
 public:
  explicit Arguments(const PJRT_LoadedExecutable_Execute_Args& args)
      : args_(args), info_(*args.executable->info) {
    ids_.reserve(args.num_args);
  }
  ~Arguments() {
    for (Array* array : assembled_) {
      array->Release();
    }
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  absl::Status Gather();
  absl::Span<const ArrayId> ids() const { return ids_; }
  absl::Span<const uint32_t> keep() const { return keep_; }
  // Deletes what the launch consumes; called once it is on its way.
  void Consume();

 private:
  using Shards = absl::InlinedVector<PJRT_Buffer*, 16>;

  absl::Status FindDonated();
  absl::Status GatherOne(size_t index, bool consumed);
  bool IsWhole(size_t index) const;
  Shards ShardsOf(size_t index) const;

  const PJRT_LoadedExecutable_Execute_Args& args_;
  const ProgramInfo& info_;
  absl::InlinedVector<ArrayId, 16> ids_;
  absl::InlinedVector<uint32_t, 16> consumed_;  // donated parameters without those to keep
  absl::InlinedVector<uint32_t, 4> keep_;
  absl::InlinedVector<Array*, 4> assembled_;
};

absl::Status Arguments::Gather() {
  if (absl::Status status = FindDonated(); !status.ok()) return status;
  size_t next_consumed = 0;
  for (size_t a = 0; a < args_.num_args; ++a) {
    const bool consumed = next_consumed < consumed_.size() && consumed_[next_consumed] == a;
    next_consumed += consumed ? 1 : 0;
    if (absl::Status status = GatherOne(a, consumed); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Arguments::FindDonated() {
  if (info_.donated.empty()) return absl::OkStatus();
  const PJRT_ExecuteOptions* options = args_.options;
  const auto kept = options == nullptr ? absl::Span<const int64_t>()
                                       : absl::MakeSpan(options->non_donatable_input_indices,
                                                        options->num_non_donatable_input_indices);
  for (const uint32_t parameter : info_.donated) {
    const bool keep = std::find(kept.begin(), kept.end(), parameter) != kept.end();
    if (keep) {
      keep_.push_back(parameter);
    } else {
      consumed_.push_back(parameter);
    }
  }
  if (consumed_.empty() || args_.num_devices == 0) return absl::OkStatus();

  absl::flat_hash_map<const PJRT_Buffer*, size_t> uses;
  uses.reserve(args_.num_args);
  PJRT_Buffer* const* first = args_.argument_lists[0];
  for (const uint32_t parameter : consumed_) {
    const auto [use, inserted] = uses.emplace(first[parameter], parameter);
    if (!inserted) {
      return absl::InvalidArgumentError(
          absl::StrCat("program ", info_.program.name, " is given one array as arguments ",
                       use->second, " and ", parameter, ", and both are donated"));
    }
  }
  for (size_t a = 0; a < args_.num_args; ++a) {
    const auto use = uses.find(first[a]);
    if (use != uses.end() && use->second != a) {
      return absl::InvalidArgumentError(
          absl::StrCat("program ", info_.program.name, " is given one array as argument ",
                       use->second, ", which is donated, and as argument ", a));
    }
  }
  return absl::OkStatus();
}

bool Arguments::IsWhole(size_t index) const {
  const Array* array = args_.argument_lists[0][index]->array;
  if (!array->made() || array->placement() == nullptr ||
      array->placement()->ordering != info_.placement->ordering) {
    return false;
  }
  for (size_t d = 0; d < args_.num_devices; ++d) {
    const PJRT_Buffer* buffer = args_.argument_lists[d][index];
    if (buffer->array != array || buffer->shard != d) return false;
  }
  return true;
}

Arguments::Shards Arguments::ShardsOf(size_t index) const {
  Shards shards;
  for (size_t d = 0; d < args_.num_devices; ++d) {
    shards.push_back(args_.argument_lists[d][index]);
  }
  return shards;
}

absl::Status Arguments::GatherOne(size_t index, bool consumed) {
  bool whole = IsWhole(index);
  Array* array = args_.argument_lists[0][index]->array;
  if (whole && !array->any_deleted() && array->error().ok()) {
    ids_.push_back(array->id());
    return absl::OkStatus();
  }
  const Shards shards = ShardsOf(index);
  for (size_t d = 0; d < shards.size(); ++d) {
    absl::Status status = CheckUsable(*shards[d]);
    if (status.ok() && shards[d]->memory->device != info_.devices[d]) {
      status = absl::InvalidArgumentError(
          absl::StrCat("its shard ", d, " is on device ", shards[d]->memory->device->description.id,
                       ", the program runs it on device ", info_.devices[d]->description.id));
    }
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat("argument ", index, " of program ",
                                                      info_.program.name, ": ", status.message()));
    }
  }
  whole = whole || IsWhole(index);  // it may have been late
  if (whole) {                      // other shards of it are deleted, not these
    ids_.push_back(array->id());
    return absl::OkStatus();
  }
  Array* assembled = consumed ? AssemblyCache::Make(shards, info_.placement)
                              : info_.client->assemblies.Get(shards, info_.placement);
  assembled_.push_back(assembled);
  ids_.push_back(assembled->id());
  return absl::OkStatus();
}

void Arguments::Consume() {
  for (const uint32_t parameter : consumed_) {
    if (IsWhole(parameter)) {
      args_.argument_lists[0][parameter]->array->Consume();
    } else {
      for (PJRT_Buffer* buffer : ShardsOf(parameter)) {
        buffer->array->Delete(buffer);
      }
    }
  }
}

absl::Status CheckCall(const PJRT_LoadedExecutable_Execute_Args& args) {
  const ProgramInfo& info = *args.executable->info;
  if (args.executable->deleted.load(std::memory_order_acquire)) {
    return absl::FailedPreconditionError(
        absl::StrCat("program ", info.program.name, " has been deleted"));
  }
  if (args.num_devices != info.devices.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program ", info.program.name, " runs on ", info.devices.size(),
                     " devices and was launched on ", args.num_devices));
  }
  if (args.num_args != info.program.parameters.size()) {
    return absl::InvalidArgumentError(absl::StrCat("program ", info.program.name, " takes ",
                                                   info.program.parameters.size(),
                                                   " arguments and was given ", args.num_args));
  }
  if (args.execute_device != nullptr && args.execute_device != info.devices.front()) {
    return absl::UnimplementedError(
        absl::StrCat("program ", info.program.name, " was compiled for device ",
                     info.devices.front()->description.id, " and cannot be moved to device ",
                     args.execute_device->description.id));
  }
  if (args.options != nullptr &&
      (args.options->num_send_ops != 0 || args.options->num_recv_ops != 0)) {
    return absl::UnimplementedError(
        absl::StrCat("program ", info.program.name, " has send or recv callbacks"));
  }
  return absl::OkStatus();
}

}  // namespace

PJRT_Error* LoadedExecutableExecute(PJRT_LoadedExecutable_Execute_Args* args) {
  SHARDWAY_PJRT_RETURN_IF_ERROR(CheckCall(*args));
  const ProgramInfo& info = *args->executable->info;
  PJRT_Client& client = *info.client;
  client.grouper.Flush();

  Arguments arguments(*args);
  SHARDWAY_PJRT_RETURN_IF_ERROR(arguments.Gather());
  auto run = std::make_shared<EventState>();
  const size_t num_results = info.result_shapes.size();
  const ArrayId first = client.session->Run(
      info.program.id, arguments.ids(), static_cast<int>(num_results), arguments.keep(),
      [run](const absl::Status& status) { run->Complete(status); });
  arguments.Consume();

  for (size_t r = 0; r < num_results; ++r) {
    Array* result = Array::NewResult(&client, ArrayId{first.value + r}, info.result_shapes[r],
                                     info.result_placements[r], run);
    for (size_t d = 0; d < args->num_devices; ++d) {
      args->output_lists[d][r] = result->shard(static_cast<uint32_t>(d));
    }
  }
  if (args->device_complete_events != nullptr) {
    NewEvents(std::move(run), absl::MakeSpan(args->device_complete_events, args->num_devices));
  }
  return nullptr;
}

}  // namespace shardway::pjrt_plugin
