// Arrays put together from shards of others, kept so that using such an argument again and again
// costs one message.
//
// A program's argument is usually one array whole; then no assembling is needed. When a user builds
// an array from single-device pieces, or a step mixes an old shard with new copies, the shards that
// JAX passes belong to several arrays, and the session assembles them into one first (no bytes
// move).
//
// An entry lives until one of the arrays it is made of ends, or it is the oldest of too many.
// Thread-safe. Keys are array ids, which are never reused.
#pragma once

#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "pjrt_c_api.h"
#include "shardway/base/ids.h"
#include "shardway/base/mutex.h"
#include "shardway/pjrt_plugin/placement.h"

namespace shardway::pjrt_plugin {

class Array;

class AssemblyCache {
 public:
  ~AssemblyCache();

  // The array whose shard i is `shards[i]`'s; held once for the caller. The buffers' arrays are
  // closed and alive.
  Array* Get(absl::Span<PJRT_Buffer* const> shards, const Placement* placement);
  // A member array has ended.
  void Forget(ArrayId member);
  // The same as Get without a cache entry, for arguments that are consumed.
  static Array* Make(absl::Span<PJRT_Buffer* const> shards, const Placement* placement);

 private:
  using Key = std::vector<std::pair<ArrayId, uint32_t>>;
  static constexpr size_t kMaxEntries = 1024;

  struct Entry {
    Key key;
    Array* array;
  };
  using Entries = std::list<Entry>;  // oldest first

  // Takes the entry out everywhere; its array, still held, is for the caller to release.
  Array* Remove(Entries::iterator entry) SHARDWAY_REQUIRES(mutex_);

  Mutex mutex_;
  Entries entries_ SHARDWAY_GUARDED_BY(mutex_);
  absl::flat_hash_map<Key, Entries::iterator> by_key_ SHARDWAY_GUARDED_BY(mutex_);
  absl::flat_hash_map<ArrayId, std::vector<Entries::iterator>> by_member_
      SHARDWAY_GUARDED_BY(mutex_);
};

}  // namespace shardway::pjrt_plugin
