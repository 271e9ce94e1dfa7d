#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// [i,k] x [k,j] → [i,j], k summed over: what the user says of a call that we do not know.
ir::Value* Product(TestProgram& p, ir::Value* a, ir::Value* b) {
  const int64_t i = a->type.dims[0], k = a->type.dims[1], j = b->type.dims[1];
  ir::SdyShardingRule rule;
  rule.factor_sizes = {i, j, k};
  rule.operands = {{{0}, {2}}, {{2}, {1}}};
  rule.results = {{{0}, {1}}};
  rule.reduction_factors = {2};
  ir::AttrDict attributes;
  ir::Set(attributes, "call_target_name", std::string("user_product"));
  ir::Set(attributes, "sdy.sharding_rule", rule);
  ir::Value* operands[] = {a, b};
  const ir::Type type = TestProgram::F32({i, j});
  return p.b.Create(ir::OpKind::kCustomCall, operands, {&type, 1}, std::move(attributes))->result();
}

TEST(CustomCall, PartsAlongAReductionFactorAreSummed) {
  TestProgram p;
  ir::Value* a = p.Argument({64, 64}, Sharding{{{}, kX}});
  ir::Value* b = p.Argument({64, 64}, Sharding{{kX, {}}});
  ir::Value* product = Product(p, a, b);
  p.Annotate(product, Sharding::Replicated(2));
  p.Return({product});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[64,64]")));
}

TEST(CustomCall, AndScatteredWhereTheyAreWantedSplit) {
  TestProgram p;
  ir::Value* a = p.Argument({64, 64}, Sharding{{{}, kX}});
  ir::Value* b = p.Argument({64, 64}, Sharding{{kX, {}}});
  ir::Value* product = Product(p, a, b);
  p.Annotate(product, Sharding{{kX, {}}});
  p.Return({product});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("reduce_scatter sum f32[64,64]")));
}

// What the call does with padding nobody knows.
TEST(CustomCall, AReductionFactorIsOnlySplitEvenly) {
  TestProgram p;
  ir::Value* a = p.Argument({64, 63}, Sharding{{{}, kX}});
  ir::Value* b = p.Argument({63, 64}, Sharding{{kX, {}}});
  ir::Value* product = Product(p, a, b);
  p.Annotate(product, Sharding::Replicated(2));
  p.Return({product});
  for (const std::string& call : p.Collectives()) EXPECT_THAT(call, HasSubstr("all_gather"));
}

}  // namespace
}  // namespace shardway::spmd
