// Which cluster a process works on, from the environment and from JAX's client options:
//
//   SHARDWAY_ADDRESS                                 a running controller to connect to, else
//   SHARDWAY_ISLANDS, SHARDWAY_HOSTS, SHARDWAY_DEVICES   a private cluster: islands, hosts per
//   island,
//                                                    devices per host (1 x 1 x 8)
//   SHARDWAY_PLUGIN                                  the workers' XLA plugin (a shared library)
//   SHARDWAY_BINARY                                  the `shardway` program, else the one beside
//   this library
//
// An option of the same name in lower case without the prefix ("address", "islands", …) wins.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pjrt_c_api.h"
#include "shardway/client/session.h"

namespace shardway::pjrt_plugin {

absl::StatusOr<std::unique_ptr<client::Session>> OpenSession(
    absl::Span<const PJRT_NamedValue> options);

// For tests: what OpenSession calls instead, from now on.
using SessionFactory = std::function<absl::StatusOr<std::unique_ptr<client::Session>>()>;
void SetSessionFactory(SessionFactory factory);

}  // namespace shardway::pjrt_plugin
