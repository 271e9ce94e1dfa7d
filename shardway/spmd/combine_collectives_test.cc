#include "shardway/spmd/combine_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

ir::Value* Sum(TestProgram& p, ir::Value* x) {
  ir::Value* operands[] = {x, p.b.Splat(ir::Type::Scalar(ElementType::kF32), 0)};
  ir::AttrDict attributes;
  ir::Set(attributes, "dimensions", std::vector<int64_t>{0});
  const ir::Type type = ir::Type::Scalar(ElementType::kF32);
  ir::Op* op = p.b.Create(ir::OpKind::kReduce, operands, {&type, 1}, std::move(attributes));
  BuildReducer(p.module.get(), p.module->AddRegion(op), collective::Reduction::kSum,
               ElementType::kF32);
  return op->result();
}

TEST(CombineAllReduces, JoinsIndependentOnes) {
  TestProgram p;
  ir::Value* a = Sum(p, p.Argument({8}, Sharding{{kX}}));
  ir::Value* first = p.b.Unary(ir::OpKind::kTanh, a);  // used before the second is made
  ir::Value* c = Sum(p, p.Argument({16}, Sharding{{kX}}));
  p.Return({p.b.Binary(ir::OpKind::kAdd, first, c)});
  EXPECT_THAT(p.Collectives(), SizeIs(1));
  EXPECT_THAT(p.Collectives()[0], HasSubstr("all_reduce sum f32[]"));
  EXPECT_THAT(p.device.collectives[0].operands, SizeIs(2));
}

TEST(CombineAllReduces, KeepsDependentOnesApart) {
  TestProgram p;
  ir::Value* x = p.Argument({8}, Sharding{{kX}});
  ir::Value* total = p.b.BroadcastInDim(Sum(p, x), std::vector<int64_t>{8}, {});
  p.Return({Sum(p, p.b.Binary(ir::OpKind::kMultiply, x, total))});
  EXPECT_THAT(p.Collectives(), SizeIs(2));
}

TEST(CombineAllReduces, KeepsOtherGroupsAndLargeOnesApart) {
  TestProgram p;
  ir::Value* a = Sum(p, p.Argument({8}, Sharding{{kX}}));
  ir::Value* c = Sum(p, p.Argument({8}, Sharding{{kY}}));
  ir::Value* big[2];
  for (ir::Value*& v : big) {
    v = p.Constrain(Dot(p.b, p.Argument({512, 4096}, Sharding{{{}, kX}}),
                        p.Argument({4096, 512}, Sharding{{kX, {}}}), 1, 0, {512, 512}),
                    Sharding{{{}, {}}});
  }
  p.Return({a, c, big[0], big[1]});
  EXPECT_THAT(p.Collectives(), SizeIs(4));
}

}  // namespace
}  // namespace shardway::spmd
