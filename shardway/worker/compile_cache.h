// Executables by content (text and options), shared by programs and sessions.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "shardway/base/mutex.h"
#include "shardway/device/device.h"

namespace shardway::worker {

// Thread-safe. Beyond `capacity` executables the least recently used leaves (programs that use it
// keep it alive).
class CompileCache {
 public:
  using Result = absl::StatusOr<std::shared_ptr<device::Executable>>;

  explicit CompileCache(size_t capacity) : capacity_(capacity) {}

  // The executable for `key`. The first caller compiles, in its own thread; those that come
  // meanwhile with the same key wait for it. A failure is given to them too, but not kept.
  Result Get(const std::string& key, const std::function<Result()>& compile);

  size_t size() const;

 private:
  struct Entry {
    bool done = false;
    Result result = std::shared_ptr<device::Executable>();
  };
  using Recent = std::list<std::pair<std::string, std::shared_ptr<Entry>>>;  // latest first

  const size_t capacity_;
  mutable Mutex mutex_;
  CondVar done_;
  Recent recent_ SHARDWAY_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string_view, Recent::iterator> index_ SHARDWAY_GUARDED_BY(mutex_);
};

}  // namespace shardway::worker
