// Makes programs ready to run, in the background: the client was answered when partitioning was
// done, XLA finishes behind it (design decision 6).
#pragma once

#include <memory>
#include <vector>

#include "shardway/comm/communicator.h"
#include "shardway/device/device.h"
#include "shardway/wire/worker.pb.h"
#include "shardway/worker/compile_cache.h"
#include "shardway/worker/outbox.h"
#include "shardway/worker/program.h"
#include "shardway/worker/task_pool.h"

namespace shardway::worker {

// Thread-safe.
class ProgramLoader {
 public:
  // Everything outlives the loader.
  ProgramLoader(device::Client* devices, comm::Communicator* comm, Outbox* outbox);

  // Prepares the collectives, compiles, uploads hidden arguments; settles `program` and sends
  // ProgramLoaded. Returns at once.
  void Load(std::shared_ptr<Program> program, wire::LoadProgram message);

 private:
  absl::StatusOr<std::shared_ptr<const comm::ProgramComm>> PrepareCollectives(
      const Program& program, const wire::LoadProgram& message);
  absl::StatusOr<Program::Loaded> Compile(const Program& program, const wire::LoadProgram& message);
  absl::StatusOr<std::vector<std::unique_ptr<device::Buffer>>> HiddenArguments(
      const Program& program, const wire::LoadProgram& message, int device);

  device::Client* const devices_;
  comm::Communicator* const comm_;
  Outbox* const outbox_;
  CompileCache cache_;
  TaskPool pool_;
};

}  // namespace shardway::worker
