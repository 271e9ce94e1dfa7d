#include "shardway/spmd/send_first.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::SizeIs;

// Rows over x and y, minor to major and back.
const Sharding kPlain{{{0, 1, 2}, {}}}, kMixed{{{1, 2, 0}, {}}};

size_t Place(const TestProgram& p, ir::OpKind kind) {
  const std::vector<ir::Op*>& ops = p.device.module->main()->body->ops;
  return std::find_if(ops.begin(), ops.end(), [&](const ir::Op* op) { return op->kind == kind; }) -
         ops.begin();
}

TEST(SendFirst, AnArgumentIsPermutedBeforeItIsComputedWith) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 4}, kPlain);
  ir::Value* two = p.b.Splat(TestProgram::F32({8, 4}), 2);
  ir::Value* y = p.b.Unary(ir::OpKind::kTanh, p.b.Binary(ir::OpKind::kMultiply, two, x));
  p.Return({p.Constrain(y, kMixed), p.Constrain(y, Sharding{{kX, {}}})});
  p.Partitioned(Backend::kNative);  // y has another use: the copy is there anyway
  EXPECT_GT(Place(p, ir::OpKind::kCollectivePermute), Place(p, ir::OpKind::kTanh));

  TestProgram q;
  x = q.Argument({8, 4}, kPlain);
  two = q.b.Splat(TestProgram::F32({8, 4}), 2);
  y = q.b.Unary(ir::OpKind::kTanh, q.b.Binary(ir::OpKind::kMultiply, two, x));
  q.Return({q.Constrain(y, kMixed)});
  q.Partitioned(Backend::kNative);
  EXPECT_LT(Place(q, ir::OpKind::kCollectivePermute), Place(q, ir::OpKind::kMultiply));
  EXPECT_LT(Place(q, ir::OpKind::kMultiply), Place(q, ir::OpKind::kTanh));
  EXPECT_LT(Place(q, ir::OpKind::kTanh), Place(q, ir::OpKind::kFuncReturn));
  EXPECT_THAT(q.device.collectives, SizeIs(1));
}

// What only some devices receive is zero on the others, and exp of zero is not.
TEST(SendFirst, ZerosOfAPermuteStayBehind) {
  TestProgram p;
  ir::Value* x = p.Argument({16, 4}, Sharding{{kY, {}}});
  ir::Value* y = p.b.Unary(ir::OpKind::kExponential, x);
  p.Return({p.Constrain(p.b.Slice(y, {1, 0}, {16, 4}), Sharding{{kY, {}}})});
  p.Partitioned(Backend::kNative);
  EXPECT_GT(Place(p, ir::OpKind::kCollectivePermute), Place(p, ir::OpKind::kExponential));
}

// Operands that differ between devices, or are two tensors, do not move with it.
TEST(SendFirst, OtherOperandsKeepTheirPlace) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 4}, kPlain);
  ir::Value* other = p.Argument({8, 4}, kPlain);
  ir::Value* y = p.b.Binary(ir::OpKind::kAdd, x, other);
  p.Return({p.Constrain(y, kMixed)});
  p.Partitioned(Backend::kNative);
  EXPECT_GT(Place(p, ir::OpKind::kCollectivePermute), Place(p, ir::OpKind::kAdd));
}

}  // namespace
}  // namespace shardway::spmd
