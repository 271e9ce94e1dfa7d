#include "shardway/spmd/propagation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

TEST(Propagation, GoesForwardAndBackwardThroughElementwise) {
  TestProgram p;
  ir::Value* a = p.Argument({8, 8}, Sharding{{kX, {}}});
  ir::Value* sum = p.b.Binary(ir::OpKind::kAdd, p.b.Unary(ir::OpKind::kTanh, a), a);
  ir::Value* iota = p.b.Iota(TestProgram::F32({8, 8}), 1);
  ir::Value* product = p.b.Binary(ir::OpKind::kMultiply, sum, iota);
  p.Return({p.Constrain(product, Sharding{{kX, kY}})});
  EXPECT_EQ(p.ShardingOf(sum), "[{x}, {y}]");
  EXPECT_EQ(p.ShardingOf(iota), "[{x}, {y}]");
  EXPECT_EQ(p.ShardingOf(a), "[{x}, {}]") << "an annotation is kept";
}

TEST(Propagation, MergesDifferentDimensions) {
  TestProgram p;
  ir::Value* a = p.Argument({8, 8}, Sharding{{kX, {}}});
  ir::Value* c = p.Argument({8, 8}, Sharding{{{}, kY}});
  ir::Value* sum = p.b.Binary(ir::OpKind::kAdd, a, c);
  p.Return({sum});
  EXPECT_EQ(p.ShardingOf(sum), "[{x}, {y}]");
}

TEST(Propagation, OneAxisSplitsOneDimension) {
  TestProgram p;
  ir::Value* a = p.Argument({8, 8}, Sharding{{kX, {}}});
  ir::Value* c = p.Argument({8, 8}, Sharding{{{}, kX}});
  ir::Value* sum = p.b.Binary(ir::OpKind::kAdd, a, c);
  p.Return({sum});
  EXPECT_EQ(p.ShardingOf(sum), "[{x}, {}]");
}

// Some parts then hold nothing; resharding to fewer parts and back would cost more than that.
TEST(Propagation, KeepsMorePartsThanRows) {
  TestProgram p;
  ir::Value* a = p.Argument({3, 16}, Sharding{{kY, {}}});
  ir::Value* b = p.b.Unary(ir::OpKind::kTanh, a);
  p.Return({p.Constrain(b, Sharding{{{}, kY}})});
  EXPECT_EQ(p.ShardingOf(b), "[{y}, {}]");
  EXPECT_THAT(p.Collectives(), testing::ElementsAre(testing::HasSubstr("all_to_all f32[1,16]")));
}

// With the other one the larger operand would have to move.
TEST(Propagation, AResultFollowsTheLargerOperand) {
  for (const bool lhs_larger : {false, true}) {
    TestProgram p;
    const int64_t m = lhs_larger ? 64 : 8, n = lhs_larger ? 8 : 64;
    ir::Value* lhs = p.Argument({m, 16}, Sharding{{kX, {}}});
    ir::Value* rhs = p.Argument({16, n}, Sharding{{{}, kX}});
    ir::Value* product = Dot(p.b, lhs, rhs, 1, 0, {m, n});
    p.Return({product});
    EXPECT_EQ(p.ShardingOf(product), lhs_larger ? "[{x}, {}]" : "[{}, {x}]");
  }
}

TEST(Propagation, CrossesDotAndLoops) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{kX, {}}});
  ir::Value* w = p.Argument({16, 16}, Sharding{{{}, kY}});
  ir::Value* h = Dot(p.b, x, w, 1, 0, {8, 16});
  ir::Op* loop = p.b.Create(ir::OpKind::kWhile, {&h, 1}, {&h->type, 1});
  ir::Region* condition = p.module->AddRegion(loop);
  p.module->AddArgument(condition, h->type);
  ir::Builder c(p.module.get(), condition);
  ir::Value* yes = c.SplatInt(ir::Type::Scalar(ElementType::kI1), 1);
  c.Return({&yes, 1});
  ir::Region* body = p.module->AddRegion(loop);
  ir::Value* state = p.module->AddArgument(body, h->type);
  ir::Builder in(p.module.get(), body);
  ir::Value* next = in.Unary(ir::OpKind::kTanh, state);
  in.Return({&next, 1});
  p.Return({loop->result()});
  for (const ir::Value* v : std::vector<const ir::Value*>{h, state, next, loop->result()}) {
    EXPECT_EQ(p.ShardingOf(v), "[{x}, {y}]");
  }
}

TEST(Propagation, ALoopsConditionHasItsStateAsTheBodyHas) {
  TestProgram p;
  ir::Value* first = p.Argument({8}, Sharding{{kY}});
  ir::Op* loop = p.b.Create(ir::OpKind::kWhile, {&first, 1}, {&first->type, 1});
  ir::Region* condition = p.module->AddRegion(loop);
  ir::Value* seen = p.module->AddArgument(condition, first->type);
  ir::Builder c(p.module.get(), condition);
  ir::Value* yes = c.SplatInt(ir::Type::Scalar(ElementType::kI1), 1);
  c.Return({&yes, 1});
  ir::Region* body = p.module->AddRegion(loop);
  ir::Value* state = p.module->AddArgument(body, first->type);
  p.program.annotations[state->id].sharding = Sharding{{kX}};
  ir::Builder in(p.module.get(), body);
  ir::Value* next = in.Unary(ir::OpKind::kTanh, state);
  in.Return({&next, 1});
  p.Return({loop->result()});
  EXPECT_EQ(p.ShardingOf(state), "[{x}]");
  EXPECT_EQ(p.ShardingOf(seen), "[{x}]");
}

TEST(Propagation, MoreWaysThanElementsAreNotTaken) {
  TestProgram p;
  ir::Value* a = p.Argument({8}, Sharding{{kY}});
  ir::Value* r = p.b.Reshape(a, std::vector<int64_t>{1, 8});
  ir::Value* s = p.b.Reshape(a, std::vector<int64_t>{8, 1});
  p.Return({r, s});
  EXPECT_EQ(p.ShardingOf(r), "[{}, {y}]");
  EXPECT_EQ(p.ShardingOf(s), "[{y}, {}]");
}

TEST(Propagation, ClosedDimensionsStayAndOpenOnesTake) {
  TestProgram p;
  ir::Value* a = p.Argument({8, 8}, Sharding{{kX, {}}});
  ir::Value* b = p.Argument({8, 8}, Sharding{{{}, kY}});
  p.program.annotations[b->id].open = 1;  // dimension 0
  p.Return({p.b.Binary(ir::OpKind::kAdd, a, b)});
  EXPECT_EQ(p.ShardingOf(b), "[{x}, {y}]");
  EXPECT_EQ(p.ShardingOf(a), "[{x}, {}]");
}

TEST(Propagation, ForbiddenAxesAreNotTaken) {
  TestProgram p;
  ir::Value* a = p.Argument({8, 8}, Sharding{{kX, {}}});
  ir::Value* b = p.Argument({8, 8}, Sharding{{{}, {}}});
  p.program.annotations[b->id].open = ~uint32_t{0};
  p.program.annotations[b->id].forbidden = sharding::ToSet(kX);
  p.Return({p.b.Binary(ir::OpKind::kAdd, a, b)});
  EXPECT_EQ(p.ShardingOf(b), "[{}, {}]");
}

TEST(Propagation, WhatLeavesAManualRegionIsNotSplitOverItsAxes) {
  TestProgram p;
  ir::Value* part = p.Argument({8, 8}, Sharding{{{}, {}}});
  ir::AttrDict attributes;
  ir::Set(attributes, "call_target_name", std::string(kShardToFull));
  ir::Op* leaves =
      p.b.Create(ir::OpKind::kCustomCall, {&part, 1}, {&part->type, 1}, std::move(attributes));
  p.program.conversions[leaves] = sharding::ToSet(kX);
  p.program.annotations[leaves->result()->id] = {.sharding = Sharding{{{}, {}}},
                                                 .open = ~uint32_t{0}};
  ir::Value* b = p.Argument({8, 8}, Sharding{{kX, kY}});
  p.Return({p.b.Binary(ir::OpKind::kAdd, leaves->result(), b)});
  EXPECT_EQ(p.ShardingOf(leaves->result()), "[{}, {y}]");
}

TEST(Propagation, UserPrioritiesDecideConflicts) {
  for (const int64_t first : {0, 1}) {
    TestProgram p;
    ir::Value* a = p.Argument({8, 8}, Sharding{{kX, {}}});
    ir::Value* b = p.Argument({8, 8}, Sharding{{kY, {}}});
    p.program.annotations[a->id].priorities = {first, 0};
    p.program.annotations[b->id].priorities = {1 - first, 0};
    ir::Value* sum = p.b.Binary(ir::OpKind::kAdd, a, b);
    p.Return({p.b.Unary(ir::OpKind::kTanh, sum)});
    EXPECT_EQ(p.ShardingOf(sum), first == 0 ? "[{x}, {}]" : "[{y}, {}]");
  }
}

// A later round still brings what nothing contradicts.
TEST(Propagation, LatePrioritiesComeTooAndKeepTheirAxes) {
  TestProgram p;
  ir::Value* a = p.Argument({8, 8}, Sharding{{kX, {}}});
  ir::Value* b = p.Argument({8, 8}, Sharding{{{}, kX}});
  ir::Value* c = p.Argument({8, 8}, Sharding{{{}, kY}});
  p.program.annotations[a->id].priorities = {2, 0};
  p.program.annotations[a->id].open = 2;
  p.program.annotations[c->id].priorities = {0, 1};
  ir::Value* late = p.b.Binary(ir::OpKind::kAdd, a, c);
  ir::Value* clash = p.b.Binary(ir::OpKind::kAdd, a, b);
  p.Return({late, clash});
  EXPECT_EQ(p.ShardingOf(clash), "[{}, {x}]") << "b comes before a";
  EXPECT_EQ(p.ShardingOf(late), "[{x}, {y}]");
  EXPECT_EQ(p.ShardingOf(a), "[{x}, {y}]") << "its own axis is not given away to dimension 1";
}

TEST(Propagation, BarriersLetPassWhatTheySay) {
  enum { kNone, kForward, kBackward, kBoth };
  for (const int64_t allowed : {kNone, kForward, kBackward, kBoth}) {
    TestProgram p;
    ir::Value* a = p.Argument({8, 8}, Sharding{{kX, {}}});
    ir::Value* before = p.b.Unary(ir::OpKind::kTanh, a);
    ir::AttrDict attributes;
    ir::Set(attributes, "allowed_direction", ir::TypedInt{ElementType::kI32, allowed});
    ir::Value* after = p.b.Create(ir::OpKind::kSdyPropagationBarrier, {&before, 1},
                                  {&before->type, 1}, std::move(attributes))
                           ->result();
    p.Return({p.Constrain(after, Sharding{{{}, kY}})});
    EXPECT_EQ(p.ShardingOf(after),
              allowed == kForward || allowed == kBoth ? "[{x}, {y}]" : "[{}, {y}]");
    EXPECT_EQ(p.ShardingOf(before),
              allowed == kBackward || allowed == kBoth ? "[{x}, {y}]" : "[{x}, {}]");
    // To partition it is nothing but an identity.
    EXPECT_EQ(p.Text(Backend::kFfi).find("propagation_barrier"), std::string::npos);
  }
}

TEST(Propagation, GroupsAreShardedAlike) {
  TestProgram p;
  ir::Value* a = p.Argument({8, 8}, Sharding{{kX, {}}});
  ir::Value* one = p.b.Unary(ir::OpKind::kTanh, a);
  ir::Value* other = p.b.Iota(TestProgram::F32({8, 8}), 0);
  p.program.groups = {{one, other}};
  p.Return({one, other});
  EXPECT_EQ(p.ShardingOf(other), "[{x}, {}]");
}

// The elementwise neighbour decides, not the contraction that comes first in the program.
TEST(Propagation, ElementwiseOperatorsComeBeforeContractions) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{kX, {}}});
  ir::Value* w = p.Argument({16, 8}, Sharding{{{}, {}}});
  ir::Value* residual = p.Argument({8, 8}, Sharding{{{}, kX}});
  ir::Value* h = Dot(p.b, x, w, 1, 0, {8, 8});
  p.Return({p.b.Binary(ir::OpKind::kAdd, h, residual)});
  EXPECT_EQ(p.ShardingOf(h), "[{}, {x}]");
}

TEST(Propagation, BroadcastsGiveLast) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{{}, kX}});
  ir::Value* w = p.Argument({16, 8}, Sharding{{{}, kY}});
  ir::Value* bias = p.Argument({8}, Sharding{{kX}});
  ir::Value* h = Dot(p.b, x, w, 1, 0, {8, 8});
  const int64_t dims[] = {8, 8};
  const int64_t to[] = {1};
  ir::Value* wide = p.b.BroadcastInDim(bias, dims, to);
  p.Return({p.b.Binary(ir::OpKind::kAdd, h, wide)});
  EXPECT_EQ(p.ShardingOf(h), "[{}, {y}]");
  EXPECT_EQ(p.ShardingOf(wide), "[{}, {y}]");
}

TEST(Propagation, OfTwoThatDisagreeTheFinerOneIsOffered) {
  TestProgram p;
  ir::Value* a = p.Argument({8, 8}, Sharding{{kX, {}}});
  ir::Value* b = p.Argument({8, 8}, Sharding{{kY, {}}});
  ir::Value* sum = p.b.Binary(ir::OpKind::kAdd, a, b);
  p.Return({sum});
  EXPECT_EQ(p.ShardingOf(sum), "[{y}, {}]");
}

TEST(Propagation, TwoShardingsAreNotMixedIntoAThird) {
  TestProgram p;
  ir::Value* a = p.Argument({8, 8}, Sharding{{kX, kY}});
  ir::Value* b = p.Argument({8, 8}, Sharding{{kY, kX}});
  ir::Value* sum = p.b.Binary(ir::OpKind::kAdd, a, b);
  p.Return({sum});
  EXPECT_EQ(p.ShardingOf(sum), "[{x}, {y}]");
}

// Layers with an elementwise operator between: the batch arrives at the second contraction before
// that one looks at its weights, whose contracting dimension is split (ZeRO).
TEST(Propagation, WhatAContractionBringsPassesOnBeforeTheNextOne) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{kY, {}}});
  ir::Value* w = p.Argument({16, 16}, Sharding{{kY, {}}});
  ir::Value* v = p.Argument({16, 16}, Sharding{{kY, {}}});
  ir::Value* h = p.b.Unary(ir::OpKind::kTanh, Dot(p.b, x, w, 1, 0, {8, 16}));
  ir::Value* out = p.b.Unary(ir::OpKind::kTanh, Dot(p.b, h, v, 1, 0, {8, 16}));
  p.Return({out});
  EXPECT_EQ(p.ShardingOf(h), "[{y}, {}]");
  EXPECT_EQ(p.ShardingOf(out), "[{y}, {}]");
}

// The bias of a sharded optimizer says nothing about the activations whose sum its gradient is.
TEST(Propagation, ReductionsGiveTheirOperandLast) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{kX, {}}});
  ir::Value* w = p.Argument({16, 8}, Sharding{{{}, {}}});
  ir::Value* h = Dot(p.b, x, w, 1, 0, {8, 8});
  ir::Value* zero = p.b.Splat(TestProgram::F32({}), 0);
  ir::Value* operands[] = {h, zero};
  ir::AttrDict attributes;
  ir::Set(attributes, "dimensions", std::vector<int64_t>{0});
  const ir::Type row = TestProgram::F32({8});
  ir::Op* sum = p.b.Create(ir::OpKind::kReduce, operands, {&row, 1}, std::move(attributes));
  BuildReducer(p.module.get(), p.module->AddRegion(sum), collective::Reduction::kSum,
               ElementType::kF32);
  p.Return({p.Constrain(sum->result(), Sharding{{kX}})});
  EXPECT_EQ(p.ShardingOf(h), "[{x}, {}]");
}

TEST(Propagation, CrossesBranches) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 8}, Sharding{{kX, {}}});
  ir::Value* which = p.module->AddArgument(p.main->body, ir::Type::Scalar(ElementType::kI32));
  p.main->arg_attrs.emplace_back();
  ir::Op* branches = p.b.Create(ir::OpKind::kCase, {&which, 1}, {&x->type, 1});
  std::vector<ir::Value*> inside;
  for (int i = 0; i < 2; ++i) {
    ir::Builder in(p.module.get(), p.module->AddRegion(branches));
    ir::Value* v = i == 0 ? in.Unary(ir::OpKind::kTanh, x) : in.Iota(x->type, 0);
    in.Return({&v, 1});
    inside.push_back(v);
  }
  p.Return({branches->result()});
  EXPECT_EQ(p.ShardingOf(branches->result()), "[{x}, {}]");
  EXPECT_EQ(p.ShardingOf(inside[1]), "[{x}, {}]");
}

TEST(Propagation, RemembersWhereAxesCameFrom) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{kX, {}}});
  ir::Value* w = p.Argument({16, 16}, Sharding{{{}, kY}});
  ir::Value* h = Dot(p.b, x, w, 1, 0, {8, 16});
  ir::Value* t = p.b.Unary(ir::OpKind::kTanh, h);
  p.Return({t});
  Decisions decisions;
  EXPECT_EQ(Propagate(p.program, *p.rules, &decisions), p.shardings);
  EXPECT_TRUE(decisions[x->id].empty()) << "an annotation needs no reason";
  ASSERT_EQ(decisions[h->id].size(), 2u);
  EXPECT_EQ(decisions[h->id][0].axes, kX);
  EXPECT_EQ(decisions[h->id][0].from, x);
  EXPECT_EQ(decisions[h->id][0].by, h->def);
  EXPECT_EQ(decisions[h->id][1].from, w);
  ASSERT_EQ(decisions[t->id].size(), 2u);
  EXPECT_EQ(decisions[t->id][1].from, h);
  EXPECT_EQ(decisions[t->id][1].by, t->def);
}

// A call that we know from its rule alone: i passes, j passes but is blocked, k is a reduction.
TEST(Propagation, CallsFollowTheirRule) {
  TestProgram p;
  ir::Value* x = p.Argument({8, 8, 8}, Sharding{{kX, AxisList{1}, AxisList{2}}});
  ir::SdyShardingRule rule;
  rule.factor_sizes = {8, 8, 8};
  rule.operands = {{{0}, {1}, {2}}};
  rule.results = {{{0}, {1}}};
  rule.reduction_factors = {2};
  rule.blocked_propagation_factors = {1};
  ir::AttrDict attributes;
  ir::Set(attributes, "call_target_name", std::string("user_call"));
  ir::Set(attributes, "sdy.sharding_rule", rule);
  const ir::Type type = TestProgram::F32({8, 8});
  ir::Value* y =
      p.b.Create(ir::OpKind::kCustomCall, {&x, 1}, {&type, 1}, std::move(attributes))->result();
  p.Return({y});
  EXPECT_EQ(p.ShardingOf(y), "[{x}, {}]");
}

// The order of hash tables must not show: annotations inserted in another order, the same answer.
TEST(Propagation, IsDeterministic) {
  TestProgram p;
  std::vector<ir::Value*> values;
  const Sharding choices[] = {Sharding{{kX, {}}}, Sharding{{{}, kX}}, Sharding{{kY, {}}},
                              Sharding{{kX, kY}}};
  for (int i = 0; i < 24; ++i) {
    values.push_back(p.Argument({8, 8}, choices[i % 4]));
    p.program.annotations[values.back()->id].priorities = {i % 3, (i + 1) % 3};
  }
  ir::Value* sum = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    ir::Value* product = Dot(p.b, sum, values[i], 1, 0, {8, 8});
    sum = p.b.Binary(i % 2 == 0 ? ir::OpKind::kAdd : ir::OpKind::kMultiply, product, values[i]);
  }
  p.Return({sum});
  for (unsigned seed = 0; seed < 20; ++seed) {
    Program shuffled = p.program;
    std::vector<std::pair<uint32_t, Annotation>> list(p.program.annotations.begin(),
                                                      p.program.annotations.end());
    std::shuffle(list.begin(), list.end(), std::mt19937(seed));
    shuffled.annotations.clear();
    for (auto& [id, annotation] : list) shuffled.annotations[id] = std::move(annotation);
    EXPECT_EQ(Propagate(shuffled, *p.rules), p.shardings);
  }
}

// A hostile program may name a priority for each dimension; time must not be their product.
TEST(Propagation, ManyPrioritiesAreRoundsOfBoundedNumber) {
  TestProgram p;
  ir::Value* last = p.b.Iota(TestProgram::F32({8, 8}), 0);
  for (int i = 0; i < 3000; ++i) {
    ir::Value* a = p.Argument({8, 8}, i % 2 == 0 ? Sharding{{kX, {}}} : Sharding{{{}, kY}});
    p.program.annotations[a->id].priorities = {i + 1, i + 1};
    last = p.b.Binary(ir::OpKind::kAdd, last, a);
  }
  p.Return({last});
  EXPECT_EQ(p.ShardingOf(last), "[{x}, {y}]");
}

}  // namespace
}  // namespace shardway::spmd
