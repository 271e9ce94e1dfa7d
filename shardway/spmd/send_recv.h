// send and recv between devices (jax.lax.psend, jax.lax.precv), as collective permutes.
//
// Both name pairs (source, target) of devices; what a device receives that is no target is zeros.
// A recv belongs to the send with the same pairs on the same channel
//
//   whose token it takes, as it is or through after_all, barriers and other transfers:
//     the permute stands in the place of the recv;
//   or, where it takes no such token, to the only other one of its region, which may send what was
//     made of the result ("receive, compute, send on"):
//     what is between is computed once more for each hop of the longest chain of pairs, the first
//     time from the zeros that the chain's beginning receives. On devices that send for themselves
//     that is the time the last of them has to wait anyway.
//
// Pairs in a circle are refused as XLA does: on devices that send for themselves each would wait
// for another.
#pragma once

#include "absl/status/status.h"
#include "shardway/spmd/program.h"

namespace shardway::spmd {

// Transfers with the host stay (host_transfer.cc). INVALID_ARGUMENT, naming the lines, for a send
// without a recv, a recv without a send, and where there are several to choose from. To be called
// before rules are made.
absl::Status PairTransfers(Program& program);

}  // namespace shardway::spmd
