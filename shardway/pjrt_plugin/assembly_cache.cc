#include "shardway/pjrt_plugin/assembly_cache.h"

#include "absl/container/inlined_vector.h"
#include "shardway/pjrt_plugin/array.h"
#include "shardway/pjrt_plugin/client.h"

namespace shardway::pjrt_plugin {

AssemblyCache::~AssemblyCache() {
  MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    entry.array->Release();
  }
}

Array* AssemblyCache::Make(absl::Span<PJRT_Buffer* const> shards, const Placement* placement) {
  absl::InlinedVector<ArrayId, 16> arrays;
  absl::InlinedVector<uint32_t, 16> indices;
  for (const PJRT_Buffer* buffer : shards) {
    arrays.push_back(buffer->array->id());
    indices.push_back(buffer->shard);
  }
  const Array& first = *shards[0]->array;
  const ArrayId id = first.client()->session->Assemble(arrays, indices);
  return Array::NewInternal(first.client(), id, first.shape_ref(), placement);
}

Array* AssemblyCache::Get(absl::Span<PJRT_Buffer* const> shards, const Placement* placement) {
  Key key;
  key.reserve(shards.size());
  for (const PJRT_Buffer* buffer : shards) {
    key.emplace_back(buffer->array->id(), buffer->shard);
  }
  Array* evicted = nullptr;
  Array* result = nullptr;
  {
    MutexLock lock(mutex_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      result = found->second->array;
    } else {
      result = Make(shards, placement);
      const auto entry = entries_.insert(entries_.end(), {key, result});
      for (const PJRT_Buffer* buffer : shards) {
        auto& uses = by_member_[buffer->array->id()];
        if (uses.empty() || uses.back() != entry) {
          uses.push_back(entry);
        }
        buffer->array->MarkAssembled();
      }
      by_key_.emplace(std::move(key), entry);
      if (entries_.size() > kMaxEntries) {
        evicted = Remove(entries_.begin());
      }
    }
    result->Hold();
  }
  if (evicted != nullptr) {
    evicted->Release();
  }
  return result;
}

Array* AssemblyCache::Remove(Entries::iterator entry) {
  for (const auto& [member, shard] : entry->key) {
    const auto uses = by_member_.find(member);
    if (uses == by_member_.end()) continue;
    std::erase(uses->second, entry);
    if (uses->second.empty()) {
      by_member_.erase(uses);
    }
  }
  Array* array = entry->array;
  by_key_.erase(entry->key);
  entries_.erase(entry);
  return array;
}

void AssemblyCache::Forget(ArrayId member) {
  absl::InlinedVector<Array*, 4> gone;
  {
    MutexLock lock(mutex_);
    for (auto uses = by_member_.find(member); uses != by_member_.end();
         uses = by_member_.find(member)) {
      gone.push_back(Remove(uses->second.back()));
    }
  }
  for (Array* array : gone) {
    array->Release();
  }
}

}  // namespace shardway::pjrt_plugin
