// The shared memory between the hosts of one machine: who writes what where. Zeroed memory is a
// valid empty segment. Nothing in it is a lock, so a process that dies at any point blocks nobody:
// every word has one writer, or is changed by single atomic operations that leave it meaningful.
//
//   SegmentHeader
//   Doorbell[hosts]             host h sleeps on doorbell h
//   DeviceState[devices]       what each device is doing: written by its host
//   Mailbox[hosts][hosts]       [to][from]: messages, one writer, one reader
//   arena[hosts]                host h's payloads: written by h, read by the others. Sparse.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "shardway/comm/device_board.h"
#include "shardway/comm/store_load_fence.h"

namespace shardway::comm {

inline constexpr int kMaxSegmentHosts = 256;
inline constexpr int kMaxSegmentDevices = 16384;
inline constexpr uint64_t kArenaBytes = uint64_t{16} << 30;
inline constexpr uint32_t kMailboxMessages = 512;
inline constexpr int64_t kMessagePayload = 200;

enum class MessageKind : uint32_t {
  kOperands = 1,  // one host's part of a collective
  kAbort,         // a launch failed; payload: the message, `step`: the code
  kTransfer,      // a part of an array's copy; `group`: key, `step`: index of the part
};

struct MessageHead {
  MessageKind kind = MessageKind::kOperands;
  int32_t launch = 0;
  int32_t site = 0;
  uint32_t step = 0;
  uint32_t round = 0;
  uint32_t inline_bytes = 0;  // in the message itself
  int64_t group = 0;
  uint64_t block = 0;  // offset in the sender's arena; 0: the payload is inline
  uint64_t bytes = 0;  // of the payload, wherever it is
  uint64_t total = 0;  // kTransfer: bytes of all parts
};
struct Message {
  MessageHead head;
  char payload[kMessagePayload];
};
static_assert(sizeof(Message) == 256);

struct alignas(64) Doorbell {
  std::atomic<uint32_t> rings{0};        // a futex
  std::atomic<uint32_t> sleeping{0};     // somebody waits for `rings` to change
  std::atomic<uint32_t> wants_space{0};  // the host waits for its payloads to be read
  std::atomic<uint32_t> polling{0};      // threads of the host that look for mail all the time
};

struct Mailbox {
  alignas(64) std::atomic<uint32_t> written{0};  // by the sender
  std::atomic<uint32_t> sender_waits{0};         // has more than fits: ring when there is room
  alignas(64) std::atomic<uint32_t> read{0};     // by the receiver
  alignas(64) Message messages[kMailboxMessages];
};

// Before each payload in an arena: who has read it, by host. One byte each, set once by its reader.
struct BlockHeader {
  std::atomic<uint8_t> read_by[kMaxSegmentHosts];
};
static_assert(sizeof(BlockHeader) % 64 == 0);

class SharedSegment {
 public:
  static uint64_t Bytes(int hosts);
  // Maps the memory; the descriptor stays the caller's. INVALID_ARGUMENT when it is too small.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Map(int fd, uint64_t bytes, int hosts);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  int hosts() const { return hosts_; }
  Doorbell& doorbell(int host) { return doorbells_[host]; }
  DeviceState* devices() { return devices_; }  // by global id, kMaxSegmentDevices of them
  Mailbox& mailbox(int to, int from) { return mailboxes_[to * hosts_ + from]; }
  char* arena(int host) { return arenas_ + static_cast<uint64_t>(host) * kArenaBytes; }
  BlockHeader& header(int host, uint64_t block) {
    return *reinterpret_cast<BlockHeader*>(arena(host) + block);
  }
  char* payload(int host, uint64_t block) { return arena(host) + block + sizeof(BlockHeader); }

  // Wakes host `to`'s poller if it sleeps.
  void Ring(int to);
  // The same for mail alone: not when somebody there polls, who looks again after he stops.
  void RingForMail(int to);
  // Sleeps until the doorbell of `host` rings, `milliseconds` at most, unless `ready()` is true
  // once it counts as sleeping.
  template <typename Ready>
  void Sleep(int host, int milliseconds, Ready ready) {
    Doorbell& bell = doorbell(host);
    const uint32_t rings = bell.rings.load(std::memory_order_acquire);
    bell.sleeping.store(1, std::memory_order_seq_cst);
    StoreLoadFence();
    if (!ready()) Wait(bell, rings, milliseconds);
    bell.sleeping.store(0, std::memory_order_relaxed);
  }

 private:
  SharedSegment(char* memory, uint64_t bytes, int hosts);
  static void Wait(Doorbell& bell, uint32_t rings, int milliseconds);

  char* const memory_;
  const uint64_t bytes_;
  const int hosts_;
  Doorbell* const doorbells_;
  DeviceState* const devices_;
  Mailbox* const mailboxes_;
  char* const arenas_;
};

}  // namespace shardway::comm
