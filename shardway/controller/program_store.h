// Partitioned programs by content: what one session compiled, another need not. Compiles in the
// background on its own threads, so that sessions are read meanwhile.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "shardway/base/mutex.h"
#include "shardway/compile/compile.h"
#include "shardway/program/program.h"

namespace shardway::controller {

using CompileFunction =
    std::function<absl::StatusOr<compile::Partitioned>(const compile::Request&)>;

// Thread-safe.
class ProgramStore {
 public:
  using Done = std::function<void(absl::StatusOr<program::ProgramPtr>)>;

  // Keeps up to `max_programs` programs and `max_bytes` of their artifacts, the oldest go first.
  ProgramStore(CompileFunction compile, int threads, size_t max_programs = 512,
               size_t max_bytes = size_t{1} << 30);
  // Ends running compiles first; those that have not begun are CANCELLED.
  ~ProgramStore();

  // Calls `done` once: at once on this thread for a program that is there, otherwise on a compile
  // thread. Requests for a program that is being compiled wait for it. Failures are not remembered.
  void Get(compile::Request request, Done done);

  // How many compiles were started: for tests and metrics.
  int64_t compiles() const;

 private:
  struct Key {
    compile::Request request;
    bool operator==(const Key& other) const;
    template <typename H>
    friend H AbslHashValue(H state, const Key& key) {
      const compile::Request& r = key.request;
      return H::combine(std::move(state), *r.artifact, r.num_replicas, r.num_partitions,
                        r.use_shardy, r.places);
    }
  };
  struct Entry {
    program::ProgramPtr program;  // null: being compiled
    std::vector<Done> waiting;
  };

  void Work();

  const CompileFunction compile_;
  const size_t max_programs_;
  const size_t max_bytes_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ SHARDWAY_GUARDED_BY(mutex_) = false;
  int64_t compiles_ SHARDWAY_GUARDED_BY(mutex_) = 0;
  size_t kept_bytes_ SHARDWAY_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<Key, Entry> entries_ SHARDWAY_GUARDED_BY(mutex_);
  std::deque<Key> to_compile_ SHARDWAY_GUARDED_BY(mutex_);
  std::deque<Key> kept_ SHARDWAY_GUARDED_BY(mutex_);  // oldest first
  std::vector<std::thread> threads_;
};

}  // namespace shardway::controller
