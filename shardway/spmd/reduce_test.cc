#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;

// The largest of each row with its place, along dimension 1.
std::vector<ir::Value*> ArgMax(TestProgram& p, ir::Value* x) {
  const ir::Type places = ir::Type::Tensor(ElementType::kI32, x->type.dims);
  const ir::Type f32 = ir::Type::Scalar(ElementType::kF32);
  const ir::Type i32 = ir::Type::Scalar(ElementType::kI32);
  ir::Value* operands[] = {x, p.b.Iota(places, 1), p.b.Splat(f32, -1e30), p.b.SplatInt(i32, 0)};
  const int64_t rows[] = {x->type.dims[0]};
  const ir::Type types[] = {ir::Type::Tensor(ElementType::kF32, rows),
                            ir::Type::Tensor(ElementType::kI32, rows)};
  ir::AttrDict attributes;
  ir::Set(attributes, "dimensions", std::vector<int64_t>{1});
  ir::Op* op = p.b.Create(ir::OpKind::kReduce, operands, types, std::move(attributes));
  ir::Region* body = p.module->AddRegion(op);
  ir::Value* a = p.module->AddArgument(body, f32);
  ir::Value* at = p.module->AddArgument(body, i32);
  ir::Value* c = p.module->AddArgument(body, f32);
  ir::Value* ct = p.module->AddArgument(body, i32);
  ir::Builder b(p.module.get(), body);
  ir::Value* first = b.Compare("GE", a, c);
  ir::Value* results[] = {b.Select(first, a, c), b.Select(first, at, ct)};
  b.Return(results);
  return op->results;
}

TEST(Reduce, FewPartialsOfAnUnknownBodyAreGatheredTogether) {
  TestProgram p;
  ir::Value* x = p.Argument({6, 4096}, Sharding{{{}, kY}});
  const auto both = ArgMax(p, x);
  p.Return({p.Constrain(both[0], Sharding{{{}}}), p.Constrain(both[1], Sharding{{{}}})});
  EXPECT_THAT(p.Collectives(),
              ElementsAre("all_gather ui32[1,2,6] along dimension 0 over axes [1] of [2,4]"));
}

TEST(Reduce, ManyPartialsAreReducedInPartsAndThenGathered) {
  TestProgram p;
  ir::Value* x = p.Argument({4095, 4096}, Sharding{{{}, kY}});
  const auto both = ArgMax(p, x);
  p.Return({p.Constrain(both[0], Sharding{{{}}}), p.Constrain(both[1], Sharding{{{}}})});
  EXPECT_THAT(p.Collectives(),
              ElementsAre("all_to_all ui32[1,2,4096] split 2 concat 0 over axes [1] of [2,4]",
                          "all_gather ui32[1,2,1024] along dimension 2 over axes [1] of [2,4]"));
}

TEST(Reduce, PartialsWantedScatteredAreNotGathered) {
  TestProgram p;
  ir::Value* x = p.Argument({6, 4096}, Sharding{{{}, kY}});
  const auto both = ArgMax(p, x);
  p.Return({p.Constrain(both[0], Sharding{{kY}}), p.Constrain(both[1], Sharding{{kY}})});
  EXPECT_THAT(p.Collectives(),
              ElementsAre("all_to_all ui32[1,2,8] split 2 concat 0 over axes [1] of [2,4]"));
}

}  // namespace
}  // namespace shardway::spmd
