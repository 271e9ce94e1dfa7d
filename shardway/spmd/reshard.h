// From one sharding of a tensor to another by the cheapest known sequence of steps: slices of what
// a device already holds, all-to-alls, permutes, and all-gathers only of the axes that must go.
//
//   [{x},{}] → [{x,y},{}]   slice
//   [{x},{}] → [{},{x}]     all-to-all
//   [{x},{}] → [{y},{}]     permute
//   [{x,y},{}] → [{x},{}]   all-gather over y
//
// Where a size does not divide, tiles of the two shardings may not nest; the plan then gathers that
// dimension in full first. Right for every pair of shardings.
#pragma once

#include <vector>

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

struct ReshardStep {
  enum class Kind { kSlice, kAllGather, kAllToAll, kPermute };
  Kind kind;
  int dim = 0;     // sliced, gathered, or (all-to-all) gathered
  int to_dim = 0;  // all-to-all: the dimension that is split
  AxisList axes;   // that leave or enter
  Sharding after;  // the sharding when the step is done
};

// `type` is the whole value's. `manual` atoms stay as they are.
std::vector<ReshardStep> PlanReshard(const ir::Type& type, const Sharding& from, const Sharding& to,
                                     const Mesh& mesh);
// Bytes that a device sends in this plan, plus a small price for each collective and for local
// copies.
double ReshardCost(const ir::Type& type, const Sharding& from, const Sharding& to,
                   const Mesh& mesh);

// `local` is the shard under `from` of a value of `type`; returns its shard under `to`.
ir::Value* EmitReshard(Emitter& e, ir::Value* local, const ir::Type& type, const Sharding& from,
                       const Sharding& to, AxisSet manual);

// This device's slice over `axes` (row-major index times `tile`), of size `tile`, along `dim`; pads
// first when the tiles reach beyond the end.
ir::Value* SliceTile(Emitter& e, ir::Value* x, int dim, int64_t tile, const AxisList& axes);

// What the collectives cost in bytes sent per device.
double AllReduceBytes(double operand_bytes, int64_t n);
double GatherBytes(double result_bytes, int64_t n);

}  // namespace shardway::spmd
