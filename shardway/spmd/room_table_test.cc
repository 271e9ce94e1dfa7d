// No operator is split by nobody's rule: each has a room, or is something else before any rule is
// asked for, or is here with the reason why it needs none.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "shardway/spmd/expand_operators.h"
#include "shardway/spmd/op_rule.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

using K = ir::OpKind;

const std::map<K, std::string>& WithoutARoom() {
  static const auto& kinds = *new std::map<K, std::string>{
      {K::kAfterAll, "joins tokens: there is no data to split"},
      {K::kCreateToken, "makes a token: there is no data to split"},
      {K::kIf, "control_flow.h"},
      {K::kCase, "control_flow.h"},
      {K::kWhile, "control_flow.h"},
      {K::kOptimizationBarrier, "each operand as it is: partitioner.cc"},
      {K::kReturn, "ends a region"},
      {K::kFuncReturn, "ends the program"},
      {K::kCall, "inlined by compile/flatten.h"},
      {K::kComposite, "inlined by compile/flatten.h"},
      {K::kCollectiveReduce, "of StableHLO 1.19: XLA does not translate it"},
      {K::kUniformQuantize, "of types that no artifact can hold (bytecode/decode_builtin.cc)"},
      {K::kUniformDequantize, "of types that no artifact can hold (bytecode/decode_builtin.cc)"},
  };
  return kinds;
}

TEST(RoomTable, EveryOperatorHasARoomOrAReason) {
  const Room& fallback = RoomOf(K::kReturn);
  for (int i = 0; i < ir::kNumOpKinds; ++i) {
    const K kind = static_cast<K>(i);
    if (kind >= K::kSdyShardingConstraint) continue;  // Shardy's compute nothing
    const bool room = &RoomOf(kind) != &fallback;
    const bool expanded = IsExpanded(kind);
    const bool listed = WithoutARoom().contains(kind);
    EXPECT_EQ(room + expanded + listed, 1)
        << ir::OpKindName(kind) << " has " << (room ? "a" : "no") << " room, is "
        << (expanded ? "" : "not ") << "expanded, and " << (listed ? "" : "not ")
        << "listed here: see README.md, \"Adding a room\"";
  }
}

}  // namespace
}  // namespace shardway::spmd
