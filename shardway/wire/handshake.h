// What goes over the channel's socket: each end's ring at the start, later descriptors that belong
// to messages; and the socket's and the peer process's end.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardway/base/clock.h"
#include "shardway/wire/peer_watcher.h"
#include "shardway/wire/unique_fd.h"

namespace shardway::wire {

struct PeerHello {
  uint64_t ring_bytes = 0;
  UniqueFd ring;
  int pid = 0;  // as the kernel vouches for it; 0 when the peer is in another pid namespace
};

// Sends our ring. With ReceiveHello at both ends, in any order.
absl::Status SendHello(const UniqueFd& socket, const UniqueFd& ring, uint64_t ring_bytes);
// Refuses (PERMISSION_DENIED) a peer of another user and (DATA_LOSS) one that speaks something
// else.
absl::StatusOr<PeerHello> ReceiveHello(const UniqueFd& socket, Duration timeout);

// A descriptor in the order of messages.
absl::Status SendDescriptor(const UniqueFd& socket, int fd, Duration timeout);
absl::StatusOr<UniqueFd> ReceiveDescriptor(const UniqueFd& socket, Duration timeout);

// Watches the peer: the socket's end, and the process itself (children that the peer has forked may
// still hold its socket).
class PeerWatch {
 public:
  // `gone` is called once, on another thread, when the peer has closed its socket or has ended. It
  // must be short.
  PeerWatch(int socket, int pid, std::function<void()> gone);
  ~PeerWatch();  // `gone` is not running afterwards
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // True when the peer has closed its socket or has ended. One system call.
  bool Gone() const;
  // Whether `gone` will be called; otherwise who waits for the peer must look from time to time.
  bool watched() const { return watched_ != 0; }

 private:
  const int socket_;
  const UniqueFd process_;
  PeerWatcher* const watcher_;
  const uint64_t watched_;
};

}  // namespace shardway::wire
