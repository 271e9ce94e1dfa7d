// The native session service: one client on one connected socket, speaking session.proto.
#pragma once

#include "absl/status/status.h"
#include "shardway/controller/controller.h"
#include "shardway/wire/unique_fd.h"

namespace shardway::front {

// Serves the client until it goes away or breaks the protocol; then everything that it owned has
// been freed. Blocks: every session has a thread of its own, which always reads (design decision
// 7). Returns OK when the client left, otherwise why the session was ended.
absl::Status ServeSession(controller::Controller& controller, wire::UniqueFd socket);

}  // namespace shardway::front
