#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/partial_sort.h"
#include "shardway/spmd/test_program.h"
#include "shardway/spmd/turn_sorts.h"

namespace shardway::spmd {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// By the first operand.
ir::Op* Sort(TestProgram& p, absl::Span<ir::Value* const> operands, int64_t dim,
             std::string type = "FLOAT") {
  ir::AttrDict attributes;
  ir::Set(attributes, "dimension", dim);
  ir::Set(attributes, "is_stable", true);
  std::vector<ir::Type> types;
  for (const ir::Value* v : operands) types.push_back(v->type);
  ir::Op* op = p.b.Create(ir::OpKind::kSort, operands, types, std::move(attributes));
  ir::Region* body = p.module->AddRegion(op);
  for (const ir::Type& type : types) {
    for (int i = 0; i < 2; ++i) p.module->AddArgument(body, ir::Type::Scalar(type.element));
  }
  ir::Builder b(p.module.get(), body);
  ir::Value* before = b.Compare("LT", body->arguments[0], body->arguments[1]);
  ir::Set(before->def->attributes, "compare_type",
          ir::EnumAttr{.kind = "comparison_type", .value = std::move(type)});
  b.Return({&before, 1});
  return op;
}
ir::Value* Sort(TestProgram& p, ir::Value* x, int64_t dim, std::string type = "FLOAT") {
  return Sort(p, {&x, 1}, dim, std::move(type))->result();
}

TEST(Sort, AlongASplitDimensionMovesTheSplitToAnother) {
  TestProgram p;
  ir::Value* x = p.Argument({1024, 4096}, Sharding{{{}, kY}});
  p.Return({p.Constrain(Sort(p, x, 1), Sharding{{{}, kY}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_to_all f32[1024,1024]"),
                                           HasSubstr("all_to_all f32[256,4096]")));
}

ir::Value* SumOfAll(TestProgram& p, ir::Value* x) {
  ir::Value* operands[] = {x, p.b.Splat(TestProgram::F32({}), 0)};
  ir::AttrDict attributes;
  ir::Set(attributes, "dimensions", std::vector<int64_t>{0, 1});
  ir::Op* sum =
      p.b.Create(ir::OpKind::kReduce, operands, {&operands[1]->type, 1}, std::move(attributes));
  BuildReducer(p.module.get(), p.module->AddRegion(sum), collective::Reduction::kSum,
               ElementType::kF32);
  return sum->result();
}

// Nobody has said how the rows are to be: they stay where they were sorted.
TEST(Sort, ThatMovedTheSplitLeavesItThere) {
  TestProgram p;
  ir::Value* x = p.Argument({1024, 4096}, Sharding{{{}, kY}});
  p.Return({SumOfAll(p, Sort(p, x, 1))});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_to_all f32[1024,1024]"),
                                           HasSubstr("all_reduce sum f32[]")));
}

TEST(Sort, ThatMovedTheSplitLeavesItThereBehindABarrierToo) {
  TestProgram p;
  ir::Value* x = p.Argument({1024, 4096}, Sharding{{{}, kY}});
  p.Return({SumOfAll(p, p.b.Barrier(Sort(p, x, 1)))});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_to_all f32[1024,1024]"),
                                           HasSubstr("all_reduce sum f32[]")));
}

// More than one part has of each row is wanted: whole rows are less than all parts' beginnings.
TEST(Sort, OfWhichMostIsWantedMovesTheSplit) {
  TestProgram p;
  ir::Value* x = p.Argument({1024, 4096}, Sharding{{{}, kY}});
  const int64_t from[] = {0, 0}, to[] = {1024, 3000};
  ir::Value* first = p.b.Slice(Sort(p, x, 1), from, to);
  ShortenSorts(p.program);
  p.Return({p.Constrain(first, Sharding{{kY, {}}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_to_all f32[1024,1024]")));
}

// argsort: the sorted values, which nobody uses, are no reason to keep the split where it is.
TEST(Sort, OfWhichOneResultIsUnusedMovesTheSplitToo) {
  TestProgram p;
  ir::Value* x = p.Argument({1024, 4096}, Sharding{{{}, kY}});
  ir::Value* operands[] = {x, p.b.Iota(ir::Type::Tensor(ElementType::kI32, x->type.dims), 1)};
  ir::Value* order = Sort(p, operands, 1)->result(1);
  p.Return({p.Constrain(order, Sharding{{{}, kY}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_to_all f32[1024,1024]"),
                                           HasSubstr("all_to_all i32[256,4096]")));
}

// Four parts would exchange three shards, as many as a gather brings; eight exchange six.
TEST(Sort, OfAVectorIsGatheredAmongFewParts) {
  TestProgram p;
  ir::Value* x = p.Argument({1 << 20}, Sharding{{kY}});
  p.Return({p.Constrain(Sort(p, x, 0), Sharding{{kY}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather f32[262144]")));
}

TEST(Sort, OfALongVectorExchangesShards) {
  const AxisList all = {0, 1, 2};
  for (const int64_t size : {1 << 20, (1 << 20) - 5}) {
    TestProgram p;
    ir::Value* x = p.Argument({size}, Sharding{{all}});
    p.Return({p.Constrain(Sort(p, x, 0, "TOTALORDER"), Sharding{{all}})});
    EXPECT_THAT(p.Collectives(), AllOf(SizeIs(6), Each(HasSubstr("permute f32[131072]"))));
  }
}

// Elements that the comparator takes for equal may differ (the zeros of an ordinary comparison):
// their places would travel too.
TEST(Sort, OfAVectorWhoseTiesDifferIsGathered) {
  const AxisList all = {0, 1, 2};
  TestProgram p;
  ir::Value* x = p.Argument({1 << 20}, Sharding{{all}});
  p.Return({p.Constrain(Sort(p, x, 0), Sharding{{all}})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather f32[131072]")));
}

ir::Value* Reverse(TestProgram& p, ir::Value* v, int64_t dim) {
  ir::AttrDict attributes;
  ir::Set(attributes, "dimensions", std::vector<int64_t>{dim});
  return p.b.Create(ir::OpKind::kReverse, {v}, {v->type}, std::move(attributes))->result();
}
// Ends the program with `v`; its collectives.
std::vector<std::string> Turned(TestProgram& p, ir::Value* v) {
  v = p.Constrain(v, Sharding{{{}, kY}});
  TurnSorts(p.program);
  p.Return({v});
  return p.Collectives();
}

// As jnp.sort(descending=True) and x[::-1] write it.
TEST(TurnSorts, OneThatIsReversedBeforeOrAfterIsTurned) {
  for (const bool after : {false, true}) {
    TestProgram p;
    ir::Value* x = p.Argument({1024, 4096}, Sharding{{{}, kY}});
    x = after ? Reverse(p, Sort(p, x, 1, "TOTALORDER"), 1)
              : Sort(p, Reverse(p, x, 1), 1, "TOTALORDER");
    EXPECT_THAT(Turned(p, x), ElementsAre(HasSubstr("all_to_all f32[1024,1024]"),
                                          HasSubstr("all_to_all f32[256,4096]")));
    // left < right, or right < left.
    const ir::Op* sort = after ? x->def->operand(0)->def : x->def;
    const ir::Region& body = *sort->regions[0];
    EXPECT_EQ(body.ops[0]->operand(0), body.arguments[after ? 1 : 0]);
    EXPECT_EQ(body.arguments[0]->index, 0);
  }
}

// As jnp.argsort(descending=True) writes it.
TEST(TurnSorts, OneThatIsReversedBeforeAndAfterIsTurnedWhateverItsTies) {
  TestProgram p;
  ir::Value* x = p.Argument({1024, 4096}, Sharding{{{}, kY}});
  ir::Value* places = p.b.Iota(ir::Type::Tensor(ElementType::kI32, x->type.dims), 1);
  ir::Value* operands[] = {Reverse(p, x, 1), Reverse(p, places, 1)};
  EXPECT_THAT(
      Turned(p, Reverse(p, Sort(p, operands, 1)->result(1), 1)),
      ElementsAre(HasSubstr("all_to_all f32[1024,1024]"), HasSubstr("all_to_all i32[256,4096]")));
}

TEST(TurnSorts, TheOrderOfTiesIsKept) {
  TestProgram p;
  ir::Value* x = p.Argument({1024, 4096}, Sharding{{{}, kY}});
  ir::Value* places = p.b.Iota(ir::Type::Tensor(ElementType::kI32, x->type.dims), 1);
  ir::Value* operands[] = {x, places};
  ir::Op* sort = Sort(p, operands, 1);
  ir::Value* reversed = Reverse(p, sort->result(1), 1);
  Turned(p, reversed);
  EXPECT_EQ(sort->regions[0]->ops[0]->operand(0), sort->regions[0]->arguments[0]);
}

TEST(TurnSorts, OtherUsesAndOtherDimensionsKeepIt) {
  for (const bool other : {false, true}) {
    TestProgram p;
    ir::Value* x = p.Argument({1024, 4096}, Sharding{{{}, kY}});
    ir::Op* sort = Sort(p, {&x, 1}, 1, "TOTALORDER");
    ir::Value* reversed = Reverse(p, sort->result(), other ? 0 : 1);
    if (!other) reversed = p.b.Binary(ir::OpKind::kAdd, reversed, sort->result());
    Turned(p, reversed);
    EXPECT_EQ(sort->regions[0]->ops[0]->operand(0), sort->regions[0]->arguments[0]);
  }
}

// What is sorted, reversed, and sorted by something else: the first is turned, and the second sorts
// what it did.
TEST(TurnSorts, OneReversalIsTakenAwayOnce) {
  TestProgram p;
  ir::Value* x = p.Argument({1024, 4096}, Sharding{{{}, kY}});
  ir::Op* first = Sort(p, {&x, 1}, 1, "TOTALORDER");
  ir::Value* between = Reverse(p, first->result(), 1);
  ir::Op* second = Sort(p, {&between, 1}, 1, "TOTALORDER");
  Turned(p, Reverse(p, second->result(), 1));
  EXPECT_EQ(second->operand(0), first->result());
  EXPECT_EQ(first->regions[0]->ops[0]->operand(0), first->regions[0]->arguments[1]);
  EXPECT_EQ(second->regions[0]->ops[0]->operand(0), second->regions[0]->arguments[1]);
}

ir::Value* FirstOf(TestProgram& p, ir::Value* sorted, int64_t k) {
  return p.b.Slice(sorted, std::vector<int64_t>{0, 0},
                   std::vector<int64_t>{sorted->type.dims[0], k});
}

TEST(Sort, OfWhichOnlyTheBeginningIsUsedGathersTheFirstOfEveryPart) {
  for (const int64_t columns : {4096, 4093}) {
    TestProgram p;
    ir::Value* x = p.Argument({6, columns}, Sharding{{{}, kY}});
    ir::Value* top = FirstOf(p, Sort(p, x, 1), 5);
    ShortenSorts(p.program);
    p.Return({p.Constrain(top, Sharding{{{}, {}}})});
    EXPECT_THAT(p.Collectives(),
                ElementsAre("all_gather f32[6,5] along dimension 1 over axes [1] of [2,4]"));
  }
}

TEST(ShortenSorts, LooksAtEveryUse) {
  TestProgram p;
  ir::Value* x = p.Argument({6, 100}, Sharding{{{}, kY}});
  ir::Value* a = Sort(p, x, 1);
  ir::Value* b = Sort(p, x, 1);
  ir::Value* c = Sort(p, x, 1);
  ir::Value* uses[] = {FirstOf(p, a, 5), FirstOf(p, a, 9), FirstOf(p, b, 5),
                       p.b.Unary(ir::OpKind::kTanh, b), FirstOf(p, c, 100)};
  ShortenSorts(p.program);
  p.Return({uses[0], uses[1], uses[2], uses[3], uses[4]});
  EXPECT_EQ(a->type.dims[1], 9);
  EXPECT_EQ(b->type.dims[1], 100);
  EXPECT_EQ(c->type.dims[1], 100);
}

}  // namespace
}  // namespace shardway::spmd
