// One client's state in the controller.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "shardway/base/ids.h"
#include "shardway/controller/directory.h"
#include "shardway/controller/session_events.h"
#include "shardway/program/program.h"
#include "shardway/scheduler/scheduler.h"

namespace shardway::controller {

struct ProgramEntry {
  uint64_t id = 0;  // the session's
  const topology::Slice* slice = nullptr;
  std::shared_ptr<const program::PlacedProgram>
      placed;           // null while compiling and when that failed
  absl::Status status;  // why runs of it fail
  int32_t queued = 0;   // waiting runs
  bool freed = false;
};

struct WaitingRead {
  uint64_t request = 0;
  uint32_t shard = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
};

struct Session {
  SessionId id;
  std::string name;
  std::shared_ptr<SessionSink> sink;
  scheduler::SessionQueue* queue = nullptr;
  Directory arrays;
  absl::node_hash_map<uint64_t, ProgramEntry> programs;
  absl::flat_hash_map<uint64_t, std::vector<WaitingRead>> waiting_reads;  // by array
  SessionEvents events;
  bool has_events = false;
};

}  // namespace shardway::controller
