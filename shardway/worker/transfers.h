// Moves array contents: from the session's arena to devices, from devices to the arena, and from
// device to device, inside this host and between hosts. Nothing here blocks the control thread or
// an executor: a transfer whose source is still being made is started by whoever makes it.
//
// Between hosts both sides name a transfer by (operation, shard). What travels is kFrameHeader
// bytes with the source's status, then the shard's bytes: a poisoned source poisons the copy, and
// nobody waits.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "shardway/comm/communicator.h"
#include "shardway/device/device.h"
#include "shardway/store/array.h"
#include "shardway/wire/arena.h"
#include "shardway/wire/worker.pb.h"
#include "shardway/worker/host_topology.h"
#include "shardway/worker/operation.h"
#include "shardway/worker/outbox.h"
#include "shardway/worker/task_pool.h"

namespace shardway::worker {

// Functions are the control thread's.
class Transfers {
 public:
  // Everything outlives it.
  Transfers(device::Client* devices, comm::Communicator* comm, const HostTopology* topology,
            Outbox* outbox);

  // Uploads into the pending shards of `array`. `arena` may be null for inline data.
  void Put(const wire::HostPut& message, const std::shared_ptr<const wire::ArenaView>& arena,
           const store::Array& array);
  // `array` may be null: an unknown name. Always answered by ReadDone.
  void Read(const wire::HostRead& message, const std::shared_ptr<const wire::ArenaView>& arena,
            const std::shared_ptr<const store::Array>& array);
  // `source` may be null: none of its shards is here. Resolves the pending shards of `array`.
  void Copy(const wire::HostCopy& message, const std::shared_ptr<const store::Array>& source,
            const store::Array& array);

 private:
  void CopyLocally(std::shared_ptr<store::Shard> source, std::shared_ptr<store::Shard> target,
                   std::shared_ptr<Operation> operation);
  void SendShard(std::shared_ptr<store::Shard> source, uint64_t key, int to_host, size_t bytes,
                 std::shared_ptr<Operation> operation);
  void ReceiveShard(const wire::HostCopy& message, uint64_t key, int from_host, size_t bytes,
                    std::shared_ptr<store::Shard> target, std::shared_ptr<Operation> operation);
  void ReadDone(uint64_t request, const absl::Status& status, std::string data, bool in_place);

  device::Client* const devices_;
  comm::Communicator* const comm_;
  const HostTopology* const topology_;
  Outbox* const outbox_;
  TaskPool memory_pool_;                    // tasks that only move memory
  std::shared_ptr<TaskPool> network_pool_;  // tasks that wait for another host
};

}  // namespace shardway::worker
