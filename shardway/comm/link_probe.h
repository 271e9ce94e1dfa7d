// What a link costs: collectives between two devices without a program, timed. The same way through
// the communicator as a program's collectives, so that what is measured is what programs get;
// threads stand in for the devices.
#pragma once

#include "absl/status/statusor.h"
#include "shardway/comm/communicator.h"
#include "shardway/topology/links.h"

namespace shardway::comm {

class CommunicatorImpl;

struct LinkProbe {
  LaunchId launch = 0;      // of its own, the same on both hosts
  int devices[2] = {0, 1};  // global ids
  // Rounds one after the other: whoever comes last to a single one finds it done at once.
  int small_rounds = 8;  // of one element
  int large_rounds = 2;
  int64_t large_bytes = 1 << 20;
  int batches = 16;  // of each; the fastest counts
};

// Both hosts call it, or the one that has both devices, while nothing else executes; blocks until
// it is done, `timeout` at most: DEADLINE_EXCEEDED when the other host does not come.
// INVALID_ARGUMENT when neither of the devices is here.
absl::StatusOr<topology::Link> MeasureLink(CommunicatorImpl& communicator, const LinkProbe& probe,
                                           Duration timeout);

}  // namespace shardway::comm
