#include "shardway/pjrt_plugin/shard_grouper.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shardway/client/strided_copy.h"
#include "shardway/pjrt_plugin/client.h"

namespace shardway::pjrt_plugin {
namespace {

absl::Status Unwanted() {
  return absl::FailedPreconditionError("the array was deleted before it was sent to its devices");
}

}  // namespace

ShardGrouper::~ShardGrouper() {
  if (client_->session != nullptr) Flush();
}

bool ShardGrouper::Group::Fits(ElementType element, absl::Span<const int64_t> dims,
                               const PJRT_Memory* memory) const {
  return array->shape().Is(element, dims) && memories.front()->kind_id == memory->kind_id &&
         std::none_of(memories.begin(), memories.end(),
                      [&](const PJRT_Memory* other) { return other->device == memory->device; });
}

bool ShardGrouper::IsFull(const Group& group) const {
  return group.memories.size() == client_->devices.size();
}

ShardGrouper::PutShard ShardGrouper::Put(ElementType element, PJRT_Buffer_Type type,
                                         absl::Span<const int64_t> dims, const HostBytes& bytes,
                                         PJRT_Memory* memory) {
  static const auto* const kDone =
      new std::shared_ptr<EventState>(EventState::Completed(absl::OkStatus()));
  Completions completions;
  PutShard result;
  {
    MutexLock lock(mutex_);
    auto* group = std::get_if<PutGroup>(&group_);
    if (group == nullptr || !group->Fits(element, dims, memory)) {
      CloseOpen(&completions);
      group = &group_.emplace<PutGroup>();
      group->array =
          Array::NewOpen(client_, std::make_shared<const ShardShape>(type, element, dims));
      open_.store(true, std::memory_order_release);
    }
    result.buffer = group->array->AddShard(memory);
    group->memories.push_back(memory);
    if (bytes.only_during_call || group->array->shape().bytes <= kStageBytes) {
      group->shards.push_back({.data = Stage(*group, bytes)});
      result.done_with_host_bytes = *kDone;
    } else {
      group->shards.push_back(
          {.data = bytes.data,
           .byte_strides = {bytes.byte_strides.begin(), bytes.byte_strides.end()}});
      if (group->sent == nullptr) {
        group->sent = std::make_shared<EventState>();
      }
      result.done_with_host_bytes = group->sent;
    }
    if (IsFull(*group)) {
      CloseOpen(&completions);
    }
  }
  for (const auto& state : completions) {
    state->Complete(absl::OkStatus());
  }
  return result;
}

const void* ShardGrouper::Stage(PutGroup& group, const HostBytes& bytes) {
  const ShardShape& shape = group.array->shape();
  auto copy = std::make_unique_for_overwrite<char[]>(shape.bytes);
  client::CopyStrided(copy.get(), static_cast<const char*>(bytes.data), shape.dims,
                      bytes.byte_strides, ElementBytes(shape.element));
  // The same address may hold other bytes by now, so they are compared.
  for (const PutGroup::Staged& staged : group.staged) {
    if (staged.origin == bytes.data &&
        std::memcmp(staged.bytes.get(), copy.get(), shape.bytes) == 0) {
      return staged.bytes.get();
    }
  }
  return group.staged.emplace_back(bytes.data, std::move(copy)).bytes.get();
}

PJRT_Buffer* ShardGrouper::Copy(PJRT_Buffer* source, PJRT_Memory* memory) {
  Completions completions;
  PJRT_Buffer* result;
  {
    MutexLock lock(mutex_);
    const ShardShape& shape = source->array->shape();
    auto* group = std::get_if<CopyGroup>(&group_);
    // A copy of a copy that this group is still to make has to wait for it.
    if (group == nullptr || group->array == source->array ||
        !group->Fits(shape.element, shape.dims, memory)) {
      CloseOpen(&completions);
      group = &group_.emplace<CopyGroup>();
      group->array = Array::NewOpen(client_, source->array->shape_ref());
      open_.store(true, std::memory_order_release);
    }
    result = group->array->AddShard(memory);
    group->memories.push_back(memory);
    group->shards.push_back(source->shard);
    group->sources.push_back(source->array);
    source->array->Hold();
    if (IsFull(*group)) {
      CloseOpen(&completions);
    }
  }
  for (const auto& state : completions) {
    state->Complete(absl::OkStatus());
  }
  return result;
}

void ShardGrouper::FlushOpen() {
  Completions completions;
  {
    MutexLock lock(mutex_);
    CloseOpen(&completions);
  }
  for (const auto& state : completions) {
    state->Complete(absl::OkStatus());
  }
}

void ShardGrouper::CloseOpen(Completions* completions) {
  if (auto* put = std::get_if<PutGroup>(&group_)) {
    Close(*put, completions);
  } else if (auto* copy = std::get_if<CopyGroup>(&group_)) {
    Close(*copy);
  }
  group_.emplace<std::monostate>();
  open_.store(false, std::memory_order_release);
}

void ShardGrouper::Close(PutGroup& group, Completions* completions) {
  const Placement* placement = client_->placements.Intern(group.memories);
  if (!group.array->wanted()) {
    group.array->CloseFailed(Unwanted(), placement);
  } else {
    const absl::StatusOr<ArrayId> id =
        client_->session->Put({.element = group.array->shape().element,
                               .shard_dims = group.array->shape().dims,
                               .devices = placement->devices},
                              group.shards);
    if (id.ok()) {
      group.array->Close(*id, placement);
    } else {
      group.array->CloseFailed(id.status(), placement);
    }
  }
  if (group.sent != nullptr) {
    completions->push_back(std::move(group.sent));
  }
  group.array->Release();
}

void ShardGrouper::Close(CopyGroup& group) {
  const Placement* placement = client_->placements.Intern(group.memories);
  if (!group.array->wanted()) {
    group.array->CloseFailed(Unwanted(), placement);
  } else {
    absl::Status error;
    for (const Array* source : group.sources) {
      error.Update(source->error());
    }
    if (error.ok()) {
      group.array->Close(SendCopy(group, placement), placement);
    } else {
      group.array->CloseFailed(error, placement);
    }
  }
  for (Array* source : group.sources) {
    source->Release();
  }
  group.array->Release();
}

ArrayId ShardGrouper::SendCopy(const CopyGroup& group, const Placement* placement) {
  client::Session& session = *client_->session;
  const Array* first = group.sources.front();
  std::vector<int> from;
  std::vector<ArrayId> arrays;
  bool whole = first->num_shards() == group.sources.size();
  for (size_t i = 0; i < group.sources.size(); ++i) {
    const Array* source = group.sources[i];
    whole = whole && source == first && group.shards[i] == i;
    arrays.push_back(source->id());
    from.push_back(source->placement()->devices[group.shards[i]]);
  }
  if (from == placement->devices) {
    // Only the kind of memory changes: the shards stay where they are.
    return session.Assemble(arrays, group.shards);
  }
  if (whole) {
    return session.Copy(first->id(), placement->devices);
  }
  const ArrayId assembled = session.Assemble(arrays, group.shards);
  const ArrayId id = session.Copy(assembled, placement->devices);
  session.Free(assembled);
  return id;
}

}  // namespace shardway::pjrt_plugin
