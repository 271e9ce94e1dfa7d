// What the partitioner works on: one flat program for all devices, its annotations, its mesh.
//
// Flat: no calls, no composites, no nested manual regions; only while, if, case and the bodies of
// reductions have regions. A manual region (shard_map) is the stretch between two kinds of
// conversions, each a custom call with one operand and one result:
//
//   @SPMDFullToShardShape   whole value → this device's part over the conversion's manual atoms
//   @SPMDShardToFullShape   the inverse
//
// A value between them is *manual* over those atoms: its type is already per device there, and the
// atoms may not split it again. The whole values on either side are split over them as annotated,
// which propagation does not extend.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "shardway/ir/module.h"
#include "shardway/sharding/sharding.h"

namespace shardway::spmd {

using sharding::Annotation;
using sharding::AxisList;
using sharding::AxisSet;
using sharding::Mesh;
using sharding::Sharding;

inline constexpr std::string_view kFullToShard = "SPMDFullToShardShape";
inline constexpr std::string_view kShardToFull = "SPMDShardToFullShape";

struct Program {
  std::shared_ptr<ir::Module> module;  // its main function is the program
  Mesh mesh;                           // over the partitions
  int64_t num_replicas = 1;
  absl::flat_hash_map<uint32_t, Annotation> annotations;    // by Value::id
  std::vector<AxisSet> manual;                              // by Value::id
  absl::flat_hash_map<const ir::Op*, AxisSet> conversions;  // manual atoms of each conversion
  std::vector<std::vector<const ir::Value*>> groups;        // values to be sharded alike

  AxisSet manual_of(const ir::Value* v) const { return manual[v->id]; }
  // What is annotated for an argument or result of the program.
  AxisSet unreduced_of(const ir::Value* v) const {
    const auto at = annotations.find(v->id);
    return at == annotations.end() ? 0 : at->second.unreduced;
  }
  sharding::DeviceOrder order_of(const ir::Value* v) const {
    const auto at = annotations.find(v->id);
    return at == annotations.end() ? nullptr : at->second.order;
  }
};

bool IsConversion(const ir::Op& op);

}  // namespace shardway::spmd
