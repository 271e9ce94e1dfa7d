// What goes over the channel's socket: each end's ring at the start, later descriptors that belong
// to messages; and the socket's and the peer process's end.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardway/base/clock.h"
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
  PeerWatch(int socket, int pid);
  // True when the peer has closed its socket or has ended. One system call.
  bool Gone() const;

 private:
  int socket_;
  UniqueFd process_;
};

}  // namespace shardway::wire
