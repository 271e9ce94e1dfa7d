#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Rng, IsTheFirstDevicesEverywhere) {
  TestProgram p;
  ir::Value* low = p.b.Splat(ir::Type::Scalar(ElementType::kF32), 0);
  ir::Value* high = p.b.Splat(ir::Type::Scalar(ElementType::kF32), 1);
  const int64_t sizes[] = {8, 4};
  ir::Value* operands[] = {low, high, p.b.IntVector(ElementType::kI64, sizes)};
  ir::AttrDict attributes;
  ir::Set(attributes, "rng_distribution",
          ir::EnumAttr{.kind = "rng_distribution", .value = "UNIFORM"});
  const ir::Type type = TestProgram::F32({8, 4});
  ir::Value* x =
      p.b.Create(ir::OpKind::kRng, operands, {&type, 1}, std::move(attributes))->result();
  p.Return({p.Constrain(x, Sharding{{kY, {}}})});
  EXPECT_THAT(p.Collectives(), ElementsAre("all_reduce sum f32[8,4] over axes [0] of [8]"));
}

// What is generated on a device where the bits are wanted so.
std::string Generated(const std::string& algorithm, ElementType element, std::vector<int64_t> dims,
                      const Sharding& wanted) {
  TestProgram p;
  ir::Value* state = p.module->AddArgument(p.main->body, ir::Type::Tensor(ElementType::kUI64, {2}));
  p.main->arg_attrs.emplace_back();
  p.Annotate(state, Sharding{{{}}});
  ir::AttrDict attributes;
  ir::Set(attributes, "rng_algorithm", ir::EnumAttr{.kind = "rng_algorithm", .value = algorithm});
  const ir::Type types[] = {state->type, ir::Type::Tensor(element, dims)};
  ir::Op* op = p.b.Create(ir::OpKind::kRngBitGenerator, {&state, 1}, types, std::move(attributes));
  p.Return({op->result(0), p.Constrain(op->result(1), wanted)});
  EXPECT_THAT(p.Collectives(), IsEmpty());
  for (const ir::Op* made : p.device.module->main()->body->ops) {
    if (made->kind == ir::OpKind::kRngBitGenerator) return made->result(1)->type.ToString();
  }
  return "";
}

TEST(RngBitGenerator, MakesItsPart) {
  const Sharding rows{{kY, {}}};
  for (const char* name : {"DEFAULT", "PHILOX"}) {
    EXPECT_EQ(Generated(name, ElementType::kUI32, {64, 10}, rows), "tensor<160xui32>");
    EXPECT_EQ(Generated(name, ElementType::kUI64, {64, 10}, rows), "tensor<160xui64>");
    // Parts begin in the middle of a counter: 3 more, cut off.
    EXPECT_EQ(Generated(name, ElementType::kUI8, {12, 7}, rows), "tensor<24xui8>");
  }
  EXPECT_EQ(Generated("THREE_FRY", ElementType::kUI64, {63, 10}, rows), "tensor<160xui64>");
  // Pairs of words far apart are made together.
  EXPECT_EQ(Generated("THREE_FRY", ElementType::kUI32, {64, 10}, rows), "tensor<80xui64>");
}

TEST(RngBitGenerator, MakesAllWhereItsPartIsNoStretch) {
  EXPECT_EQ(Generated("DEFAULT", ElementType::kUI32, {64, 12}, Sharding{{{}, kY}}),
            "tensor<64x12xui32>");
  EXPECT_EQ(Generated("DEFAULT", ElementType::kUI32, {64, 12}, Sharding{{kX, kY}}),
            "tensor<384xui32>");
  // Of odd dimensions the longest is made even; parts of another are no stretches then.
  EXPECT_EQ(Generated("THREE_FRY", ElementType::kUI32, {3, 11}, Sharding{{kX, {}}}),
            "tensor<3x11xui32>");
  EXPECT_EQ(Generated("THREE_FRY", ElementType::kUI32, {11, 3}, Sharding{{kX, {}}}),
            "tensor<9xui64>");
}

}  // namespace
}  // namespace shardway::spmd
