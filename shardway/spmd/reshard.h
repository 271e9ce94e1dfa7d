// From one sharding of a tensor to another by the cheapest sequence of steps that a search over
// layouts finds: slices of what a device already holds, all-to-alls, permutes, exchanges of the
// edges of tiles, and all-gathers only of the axes that must go.
//
//   [{x},{}] → [{x,y},{}]      slice
//   [{x},{}] → [{},{x}]        all-to-all
//   [{x},{}] → [{y},{}]        permute; slice before and gather after where sizes differ
//   [{x,y},{}] → [{x},{}]      all-gather over y
//   [{x},{y}] → [{y},{x}]      all-to-all of what x and y differ by, then a permute
//   1003 over x=2 → over x,y   2 rows to the neighbour, then a slice: tiles do not nest
//
//   [{x}] → [{y}], x=3, y=2    slice over y (6 parts), permute to [{y,x}], gather over x
//
// No step holds more than the larger of the two shards, but for the padding of sizes that do not
// divide, and up to twice as much where axes have some factors in common and others not (6 and 10):
// there is no "full rematerialization". Right for every pair of shardings.
#pragma once

#include <vector>

#include "shardway/spmd/emitter.h"
#include "shardway/spmd/halo.h"

namespace shardway::spmd {

struct ReshardStep {
  enum class Kind { kSlice, kAllGather, kAllToAll, kPermute, kRetile };
  Kind kind = Kind::kSlice;
  int dim = 0;     // sliced, gathered, retiled, or (all-to-all) gathered
  int to_dim = 0;  // all-to-all: the dimension that is split
  AxisList axes;   // that leave or enter
  Sharding after;  // the sharding when the step is done
  // The shard's sizes then. Between steps tiles may be larger than CeilDiv(size, parts): part p
  // holds the elements from p · tile on.
  absl::InlinedVector<int64_t, 4> shard;
};

struct ReshardPlan {
  std::vector<ReshardStep> steps;
  // Bytes that a device sends, each weighed with the price of its axes (Mesh::price), plus a price
  // for each collective and for local copies.
  double cost = 0;
};

// `type` is the whole value's. Thread-safe.
ReshardPlan PlanReshard(const ir::Type& type, const Sharding& from, const Sharding& to,
                        const Mesh& mesh);
double ReshardCost(const ir::Type& type, const Sharding& from, const Sharding& to,
                   const Mesh& mesh);

// `local` is the shard under `from` of a value of `type`; returns its shard under `to`. `manual`
// atoms stay as they are.
ir::Value* EmitReshard(Emitter& e, ir::Value* local, const ir::Type& type, const Sharding& from,
                       const Sharding& to, AxisSet manual);

// This device's slice over `axes` (row-major index times `tile`), of size `tile`, along `dim`; what
// tiles have beyond the end is undefined.
ir::Value* SliceTile(Emitter& e, ir::Value* x, int dim, int64_t tile, const AxisList& axes);

// `x` with `fill` at the end of `dim`, where it is shorter than `size`.
ir::Value* PadDim(Emitter& e, ir::Value* x, int dim, int64_t size, int64_t fill = 0);

// From tiles of one size to tiles of another over the same parts: what each part needs.
HaloNeeds RetileNeeds(int64_t size, int64_t parts, int64_t tile);

// What the collectives cost in bytes sent per device.
double AllReduceBytes(double operand_bytes, int64_t n);
double GatherBytes(double result_bytes, int64_t n);

}  // namespace shardway::spmd
