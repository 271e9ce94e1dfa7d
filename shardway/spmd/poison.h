// For tests: the padding of every operand of every operator is filled with NaN (integers: with
// 113), so that nothing can rely on what it holds.
#pragma once

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

// `shard` is one of a value of `type` under `sharding`; values that are no tensors have no padding.
ir::Value* PoisonPadding(Emitter& e, ir::Value* shard, const ir::Type& type,
                         const Sharding& sharding);

}  // namespace shardway::spmd
