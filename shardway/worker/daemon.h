// The worker process.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "shardway/wire/channel.h"
#include "shardway/wire/worker.pb.h"
#include "shardway/worker/worker.h"

namespace shardway::worker {

// Makes what a worker consists of, as Configure says; `shared_memory` came with the message
// (invalid: none).
using PartsFactory =
    std::function<absl::StatusOr<Worker::Parts>(const wire::Configure&, wire::UniqueFd)>;

// The real one: loads the plugin, starts the communicator, registers the FFI handlers.
absl::StatusOr<Worker::Parts> MakeParts(const wire::Configure& configure,
                                        wire::UniqueFd shared_memory);

// How much shared memory `hosts` workers of one machine communicate through: what Configure passes.
uint64_t SharedMemoryBytes(int hosts);

// Answers Configure with WorkerReady and does what comes until the controller says shutdown or
// closes the channel (OK), or breaks the protocol (an error).
absl::Status Serve(wire::Channel& channel, const PartsFactory& make_parts);

// The sub-command `shardway worker --fd N`: serves the channel on the inherited socket `fd`. Dies
// with its parent, ignores Ctrl-C (which is the user's script's), leaves nothing behind. Returns
// the exit code.
int RunWorkerMain(int fd);

}  // namespace shardway::worker
