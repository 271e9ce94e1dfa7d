// What is moved, and in which form: through whole programs, since that is where it shows.
#include "shardway/spmd/local_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// As operand 0 of an operator that wants another sharding than the one it has.
ir::Value* Elsewhere(TestProgram& p, ir::Value* v, Sharding sharding) {
  ir::Value* other = p.Argument({v->type.dims.begin(), v->type.dims.end()}, sharding);
  return p.Constrain(p.b.Binary(ir::OpKind::kAdd, v, other), sharding);
}

TEST(LocalValues, ABroadcastIsMadeAgainAndNotMoved) {
  TestProgram p;
  const Sharding rows{{kX, {}}};
  ir::Value* row = p.Argument({64}, Sharding{{kX}});
  const int64_t dims[] = {64, 512};
  const int64_t at[] = {0};
  ir::Value* all = p.b.BroadcastInDim(row, dims, at);
  p.Annotate(all, rows);
  p.Return({p.Constrain(p.b.Unary(ir::OpKind::kTanh, all), rows),
            Elsewhere(p, all, Sharding{{{}, kX}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather f32[32]")));
}

TEST(LocalValues, AWiderTypeIsMadeAfterMoving) {
  TestProgram p;
  ir::Value* narrow =
      p.module->AddArgument(p.main->body, ir::Type::Tensor(ElementType::kBF16, {256, 256}));
  p.main->arg_attrs.emplace_back();
  p.Annotate(narrow, Sharding{{kX, {}}});
  ir::Value* wide = p.b.Convert(narrow, ElementType::kF32);
  p.Annotate(wide, Sharding{{kX, {}}});
  p.Return({Elsewhere(p, wide, Sharding{{{}, kX}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_to_all bf16[128,256]")));
}

// An operator whose result is wanted whole at once gathers what it needs, and not what it makes.
TEST(LocalValues, AResultIsMadeAsTheConstraintAfterItWants) {
  TestProgram p;
  ir::Value* x = p.Argument({64, 64}, Sharding{{kY, {}}});
  const std::vector<int64_t> low = {3, 0}, high = {5, 640};
  ir::Value* padded = p.b.Pad(x, p.b.Splat(TestProgram::F32({}), 0), low, high);
  p.Return({p.Constrain(padded, Sharding{{{}, {}}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather f32[16,64]")));
}

TEST(LocalValues, AConstraintBehindABarrierToo) {
  TestProgram p;
  ir::Value* x = p.Argument({64, 64}, Sharding{{kY, {}}});
  const std::vector<int64_t> low = {3, 0}, high = {5, 640};
  ir::Value* padded = p.b.Pad(x, p.b.Splat(TestProgram::F32({}), 0), low, high);
  p.Return({p.Constrain(p.b.Barrier(padded), Sharding{{{}, {}}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather f32[16,64]")));
}

// What was there before a constraint is there after it.
TEST(LocalValues, AConstraintHidesNoLayout) {
  TestProgram p;
  const Sharding rows{{kX, {}}};
  const Sharding columns{{{}, kX}};
  ir::Value* x = p.b.Unary(ir::OpKind::kTanh, p.Argument({256, 256}, rows));
  p.Annotate(x, rows);
  ir::Value* moved = p.Constrain(x, columns);
  p.Return({moved, Elsewhere(p, moved, rows)});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_to_all f32[128,256]")));
}

// The whole is not kept for those who want another split.
TEST(LocalValues, ASplitHidesTheWhole) {
  TestProgram p;
  const Sharding rows{{kX, {}}};
  const Sharding columns{{{}, kX}};
  ir::Value* x = p.b.Unary(ir::OpKind::kTanh, p.Argument({256, 256}, Sharding{{{}, {}}}));
  p.Annotate(x, Sharding{{{}, {}}});
  ir::Value* moved = p.Constrain(x, columns);
  p.Return({moved, Elsewhere(p, moved, rows)});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_to_all f32[256,128]")));
}

// Nor what a value is made of.
TEST(LocalValues, AConstraintHidesNoBroadcast) {
  TestProgram p;
  const Sharding rows{{kX, {}}};
  const int64_t dims[] = {64, 512};
  const int64_t at[] = {0};
  ir::Value* all = p.b.BroadcastInDim(p.Argument({64}, Sharding{{kX}}), dims, at);
  ir::Value* held = p.Constrain(all, rows);
  p.Return({held, Elsewhere(p, held, Sharding{{{}, kX}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather f32[32]")));
}

TEST(LocalValues, UnlessTheUserSaysOtherwise) {
  TestProgram p;
  ir::Value* x = p.b.Unary(ir::OpKind::kTanh, p.Argument({64}, Sharding{{{}}}));
  p.Annotate(x, Sharding{{kY}});
  p.Return({p.Constrain(x, Sharding{{{}}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather f32[16]")));
}

// Of a large tensor that a small window is cut out of only the window counts as work.
TEST(LocalValues, AWindowOfAWholeTensorIsCutWhole) {
  TestProgram p;
  ir::Value* x = p.Argument({64, 64, 64}, Sharding{{{}, {}, {}}});
  ir::Value* zero = p.b.SplatInt(ir::Type::Scalar(ElementType::kI32), 0);
  const int64_t sizes[] = {48, 16, 64};
  ir::Value* window = p.b.DynamicSlice(x, {zero, zero, zero}, sizes);
  p.Return({p.Constrain(window, Sharding{{{}, kY, {}}})});
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

}  // namespace
}  // namespace shardway::spmd
