#include "shardway/spmd/order_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/ir/verify.h"
#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;

// The kinds of a program's operators in order, of those that are named.
std::vector<ir::OpKind> Kinds(const ir::Region& region, std::vector<ir::OpKind> named) {
  std::vector<ir::OpKind> kinds;
  for (const ir::Op* op : region.ops) {
    if (std::find(named.begin(), named.end(), op->kind) != named.end()) kinds.push_back(op->kind);
  }
  return kinds;
}

struct Ordered : TestProgram {
  const ir::Region& Body(Backend backend) {
    Partitioned(backend);
    EXPECT_TRUE(ir::Verify(*device.module).ok()) << ir::Verify(*device.module);
    return *device.module->main()->body;
  }
  ir::Value* Gathered(ir::Value* v) { return Constrain(v, Sharding{{{}, {}}}); }
};

constexpr auto kTanh = ir::OpKind::kTanh;
constexpr auto kGather = ir::OpKind::kAllGather;
constexpr auto kCosine = ir::OpKind::kCosine;

TEST(OrderCollectives, AGatherIsSentBeforeWorkThatItDoesNotNeed) {
  Ordered p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{kX, {}}});
  ir::Value* small = p.Argument({8, 2}, Sharding{{kX, {}}});
  ir::Value* h = p.b.Unary(kTanh, p.b.Unary(kTanh, x));
  ir::Value* g = p.b.Unary(kCosine, p.Gathered(small));
  ir::Value* end = p.b.Concatenate({{h, h, h}}, 1);  // the peak
  p.Return({end, p.Constrain(g, Sharding{{{}, {}}})});
  EXPECT_THAT(Kinds(p.Body(Backend::kNative), {kTanh, kGather, kCosine}),
              ElementsAre(kGather, kTanh, kTanh, kCosine));
}

TEST(OrderCollectives, NothingMovesWhereMoreWouldBeLive) {
  Ordered p;
  // The gathered value is the peak's larger half: it may not live beside the wide one.
  ir::Value* x = p.Argument({8, 64}, Sharding{{kX, {}}});
  ir::Value* w = p.Argument({8, 64}, Sharding{{kX, {}}});
  ir::Value* wide = p.b.Concatenate({{x, x, x, x}}, 1);
  ir::Value* h = p.b.Slice(p.b.Unary(kTanh, wide), {{0, 0}}, {{8, 1}});
  ir::Value* g = p.b.Slice(p.b.Unary(kCosine, p.Gathered(w)), {{0, 0}}, {{1, 1}});
  p.Return({h, p.Constrain(g, Sharding{{{}, {}}})});
  EXPECT_THAT(Kinds(p.Body(Backend::kNative), {kTanh, kGather, kCosine}),
              ElementsAre(kTanh, kGather, kCosine));
}

TEST(OrderCollectives, WorkIsDoneWhileASumIsOnItsWay) {
  Ordered p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{{}, kY}});
  ir::Value* w = p.Argument({16, 8}, Sharding{{kY, {}}});
  ir::Value* other = p.Argument({8, 8}, Sharding{{{}, {}}});
  ir::Value* sum = p.Constrain(Dot(p.b, x, w, 1, 0, {8, 8}), Sharding{{{}, {}}});
  ir::Value* used = p.b.Unary(kTanh, sum);
  ir::Value* work = p.b.Unary(kCosine, other);
  p.Return({p.b.Binary(ir::OpKind::kAdd, used, work)});
  constexpr auto kReduce = ir::OpKind::kAllReduce;
  EXPECT_THAT(Kinds(p.Body(Backend::kNative), {kTanh, kReduce, kCosine}),
              ElementsAre(kReduce, kCosine, kTanh));
}

TEST(OrderCollectives, OneProcessKeepsItsOrder) {
  Ordered p;
  ir::Value* x = p.Argument({8, 16}, Sharding{{kX, {}}});
  ir::Value* small = p.Argument({8, 2}, Sharding{{kX, {}}});
  ir::Value* h = p.b.Unary(kTanh, x);
  ir::Value* g = p.Gathered(small);
  p.Return({h, g});
  constexpr auto kCall = ir::OpKind::kCustomCall;
  EXPECT_THAT(Kinds(p.Body(Backend::kFfi), {kTanh, kCall}), ElementsAre(kTanh, kCall));
}

}  // namespace
}  // namespace shardway::spmd
