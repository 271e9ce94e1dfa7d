// The data movement of one collective of one group on this host, once every operand it reads is at
// hand: in the members' own buffers or in shared memory. Cut into pieces, so that large ones are
// shared between threads; pieces are independent of each other.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "shardway/comm/program_comm.h"

namespace shardway::comm {

struct Work {
  const SitePlan* site = nullptr;
  const GroupPlan* group = nullptr;
  // operands[member * number of operands + i], by member of the group; null where not read.
  absl::InlinedVector<const char*, 16> operands;
  // results[local * number of results + i], by local member.
  absl::InlinedVector<char*, 16> results;

  const char* operand(int member, int i) const {
    return operands[member * site->spec.operands.size() + i];
  }
  char* result(int local, int i) const { return results[local * site->spec.results.size() + i]; }
};

int NumPieces(const Work& work);
// Piece `piece` of `num_pieces`. Any thread.
void RunPiece(const Work& work, int piece, int num_pieces);

// Of an all-reduce: combines elements [first, first + count) of operand `i` into `destination`.
void ReduceRange(const Work& work, int i, int64_t first, int64_t count, char* destination);

// What a device that takes part in no group gets: its own operand from an all-reduce, else zeros.
void RunAlone(const SitePlan& site, const void* const* operands, void* const* results);

}  // namespace shardway::comm
