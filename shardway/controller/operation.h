// Whatever makes arrays: a run, an upload, an assembly, a copy. All take one way: accepted, perhaps
// queued, sent to their hosts as one message, ended when every host has said so.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "shardway/controller/host_set.h"
#include "shardway/scheduler/scheduler.h"
#include "shardway/wire/worker.pb.h"

namespace shardway::controller {

struct Session;
struct ProgramEntry;

struct Operation {
  Session* session = nullptr;
  uint64_t seq = 0;
  ProgramEntry* program = nullptr;  // of a run
  scheduler::Gang gang;
  absl::InlinedVector<uint64_t, 6> inputs;  // the session's array ids
  absl::InlinedVector<uint64_t, 4> outputs;
  absl::InlinedVector<uint64_t, 2> consumed;  // those of the inputs that it was given for good
  std::vector<int> hosts_of_copy;             // where a copy takes place: both ends
  wire::ToWorker message;                     // complete but for its number

  const std::vector<int>& hosts() const {
    return hosts_of_copy.empty() ? gang.slice->hosts : hosts_of_copy;
  }
  // Ready for another operation; keeps allocated memory.
  void Reset(Session* new_session, uint64_t new_seq) {
    session = new_session;
    seq = new_seq;
    program = nullptr;
    gang = {};
    inputs.clear();
    outputs.clear();
    consumed.clear();
    hosts_of_copy.clear();
  }
};

struct WaitingOperation : scheduler::Work {
  Operation operation;
};

// An operation that was sent and has not ended.
struct InFlight {
  Session* session = nullptr;  // null: closed since
  uint64_t seq = 0;
  scheduler::Gang gang;
  HostSet remaining;
  absl::Status status;  // the first failure
  absl::InlinedVector<uint64_t, 4> outputs;
  struct Release {
    const topology::Slice* slice;
    int64_t bytes;
  };
  // Memory that is free again when it has ended.
  absl::InlinedVector<Release, 2> releases;
};

}  // namespace shardway::controller
