// What sending costs inside a host, between hosts and between islands: measured by the workers
// themselves, pair by pair, before the first session.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardway/base/clock.h"
#include "shardway/topology/links.h"
#include "shardway/topology/topology.h"
#include "shardway/wire/channel.h"

namespace shardway::controller {

// `workers`: by global host number; they are ready, and nobody else reads their channels. A few
// pairs stand for all: two devices of the first host, the first host and others of its island, the
// first island and others. Blocks, `timeout` at most for each pair.
absl::StatusOr<topology::MeasuredLinks> MeasureLinks(
    absl::Span<const std::unique_ptr<wire::Channel>> workers, const topology::Topology& topology,
    Duration timeout);

}  // namespace shardway::controller
