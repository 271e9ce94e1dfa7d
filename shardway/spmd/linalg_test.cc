#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

ir::Value* Solve(TestProgram& p, ir::Value* a, ir::Value* b) {
  ir::AttrDict attributes;
  ir::Set(attributes, "left_side", true);
  ir::Set(attributes, "lower", true);
  ir::Set(attributes, "transpose_a", ir::EnumAttr{.kind = "transpose", .value = "NO_TRANSPOSE"});
  ir::Value* operands[] = {a, b};
  return p.b.Create(ir::OpKind::kTriangularSolve, operands, {&b->type, 1}, std::move(attributes))
      ->result();
}

TEST(TriangularSolve, RightHandSidesAreProblemsOfTheirOwn) {
  TestProgram p;
  ir::Value* a = p.Argument({64, 64}, Sharding{{{}, {}}});
  ir::Value* b = p.Argument({64, 30}, Sharding{{{}, kY}});
  ir::Value* x = Solve(p, a, b);
  p.Return({x});
  EXPECT_EQ(p.ShardingOf(x), "[{}, {y}]");
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

TEST(HostTransfer, SaysWhatToDoInstead) {
  TestProgram p;
  const ir::Type token = ir::Type::Token();
  ir::Value* before = p.b.Create(ir::OpKind::kCreateToken, {}, {&token, 1})->result();
  const ir::Type types[] = {TestProgram::F32({8, 4}), token};
  p.Return({p.b.Create(ir::OpKind::kInfeed, {&before, 1}, types)->result()});
  const auto device = Partition(p.program, *p.rules, p.shardings, {});
  EXPECT_EQ(device.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(device.status().message(), HasSubstr("io_callback"));
}

}  // namespace
}  // namespace shardway::spmd
