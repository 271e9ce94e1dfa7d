// Unix sockets of one machine, by address:
//   "unix:@name"  an abstract name: no file, gone with its process
//   "unix:/path"  a socket file
//   "fd:N"        a connected socket that this process inherited (Connect only)
// Only processes of the same user are let in (SO_PEERCRED). All descriptors are close-on-exec.
#pragma once

#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "shardway/base/clock.h"
#include "shardway/wire/unique_fd.h"

namespace shardway::wire {

// ALREADY_EXISTS when another process listens at this address.
absl::StatusOr<UniqueFd> Listen(std::string_view address);

// The next connection to `listener`; DEADLINE_EXCEEDED when none comes in time. Connections from
// other users are refused and not returned.
absl::StatusOr<UniqueFd> Accept(const UniqueFd& listener, Duration timeout);

// Keeps trying until somebody listens; UNAVAILABLE after `timeout`.
absl::StatusOr<UniqueFd> Connect(std::string_view address, Duration timeout);

// Two connected sockets. To give one to a child process: keep it open over exec with KeepOverExec
// in the child (between fork and exec) and tell the child its number ("--fd N", address "fd:N").
absl::StatusOr<std::pair<UniqueFd, UniqueFd>> SocketPair();

// Clears close-on-exec. Async-signal-safe.
void KeepOverExec(int fd);

}  // namespace shardway::wire
