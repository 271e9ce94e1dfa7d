// What the controller tells a session. Gathered while the controller works, delivered in one go.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardway/program/program.h"

namespace shardway::controller {

struct SessionEvents {
  struct Failure {
    uint64_t seq = 0;
    absl::Status status;
  };
  struct CompileDone {
    uint64_t program = 0;  // the session's id
    absl::StatusOr<std::shared_ptr<const program::PlacedProgram>> result;
  };
  struct ReadDone {
    uint64_t request = 0;
    absl::Status status;
    std::string data;  // when the answer was asked inline
  };
  struct Callback {
    uint64_t call = 0;
    uint64_t callback = 0;
    int device = 0;
    std::vector<std::string> operands;
  };

  struct MemoryStats {
    uint64_t request = 0;
    int64_t bytes_in_use = 0;
    int64_t bytes_limit = 0;
  };

  std::vector<uint64_t> ended;  // seqs that ended well
  std::vector<Failure> failures;
  std::vector<CompileDone> compiled;
  std::vector<ReadDone> reads;
  std::vector<Callback> callbacks;
  std::vector<MemoryStats> memory;

  bool empty() const {
    return ended.empty() && failures.empty() && compiled.empty() && reads.empty() &&
           callbacks.empty() && memory.empty();
  }
};

// The other side of a session: a door in `front`. Called without locks, from any thread and from
// several at once; it must not wait long, and must not call back into the controller.
class SessionSink {
 public:
  virtual ~SessionSink() = default;
  virtual void Deliver(SessionEvents events) = 0;
};

}  // namespace shardway::controller
