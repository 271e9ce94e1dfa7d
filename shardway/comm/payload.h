// What one host sends to the others of a group for one collective: the operands that somebody there
// reads, of each of its members in group order, each operand at a multiple of 16 bytes. Sender and
// receiver compute the same layout.
#pragma once

#include <cstdint>
#include <vector>

#include "shardway/comm/program_comm.h"

namespace shardway::comm {

inline constexpr int64_t kMaxInlineBytes =
    192;  // in the message itself; more is in the sender's arena
// From here on an all-reduce has two rounds: each host combines a share and passes it on.
inline constexpr int64_t kTwoRoundBytes = int64_t{128} << 10;

constexpr int64_t AlignPayload(int64_t bytes) { return (bytes + 15) & ~int64_t{15}; }

bool IsTwoRound(const SitePlan& site);
// Whether another host reads operand `i` of member `member`.
bool IsSent(const SitePlan& site, const GroupPlan& group, int member, int i);
// Of a host with these members.
int64_t PayloadBytes(const SitePlan& site, const GroupPlan& group, const std::vector<int>& members);

// The share of elements that the `index`-th of `hosts` hosts combines.
struct Share {
  int64_t first = 0;
  int64_t count = 0;
};
Share ShareOf(int64_t elements, int index, int hosts);
// Bytes of one host's shares of all operands, each at a multiple of 16.
int64_t ShareBytes(const SitePlan& site, int index, int hosts);

}  // namespace shardway::comm
