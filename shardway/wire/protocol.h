// Numbers that both ends of a connection agree on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardway::wire {

// Raised with every incompatible change of session.proto or worker.proto. Ends that differ refuse
// each other in the first message.
inline constexpr uint32_t kSessionProtocol = 2;
inline constexpr uint32_t kWorkerProtocol = 2;

// Array data up to this size travels inside its message; larger data through the arena.
inline constexpr size_t kMaxInlineBytes = 4096;

// No message is larger (programs with big constants are the largest ones).
inline constexpr size_t kMaxMessageBytes = size_t{1} << 30;

// Every block of the arena starts at a multiple of this: what XLA wants of a CPU buffer.
inline constexpr uint64_t kArenaAlignment = 64;

// Limits of one message, far above what programs need, low enough that no message can make its
// reader allocate without bound.
inline constexpr int kMaxRank = 64;
inline constexpr int kMaxDevices = 1 << 16;
inline constexpr int kMaxValuesPerProgram = 1 << 20;

// Launch ids from 1 to this are of probes of links; runs have greater ones.
inline constexpr uint32_t kMaxLinkProbes = 63;

}  // namespace shardway::wire
