#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using List = std::vector<int64_t>;

ir::Value* Indices(TestProgram& p, const List& dims, Sharding sharding) {
  ir::Value* v = p.module->AddArgument(p.main->body, ir::Type::Tensor(ElementType::kI32, dims));
  p.main->arg_attrs.emplace_back();
  p.Annotate(v, std::move(sharding));
  return v;
}

// Rows of a matrix, or `width` columns of them from a start.
ir::Value* Gather(TestProgram& p, ir::Value* x, ir::Value* indices, List windows, List collapsed,
                  List offset, List map, List result) {
  ir::AttrDict attributes;
  ir::Set(attributes, "offset_dims", std::move(offset));
  ir::Set(attributes, "collapsed_slice_dims", std::move(collapsed));
  ir::Set(attributes, "operand_batching_dims", List{});
  ir::Set(attributes, "start_indices_batching_dims", List{});
  ir::Set(attributes, "start_index_map", std::move(map));
  ir::Set(attributes, "index_vector_dim", int64_t{indices->type.rank() - 1});
  ir::Set(attributes, "slice_sizes", std::move(windows));
  ir::Value* operands[] = {x, indices};
  const ir::Type type = TestProgram::F32(std::move(result));
  return p.b.Create(ir::OpKind::kGather, operands, {&type, 1}, std::move(attributes))->result();
}

ir::Value* Scatter(TestProgram& p, ir::Value* x, ir::Value* indices, ir::Value* updates, bool add,
                   List inserted = {0}, List window = {1}, List map = {0}) {
  ir::AttrDict attributes;
  ir::Set(attributes, "update_window_dims", std::move(window));
  ir::Set(attributes, "inserted_window_dims", std::move(inserted));
  ir::Set(attributes, "input_batching_dims", List{});
  ir::Set(attributes, "scatter_indices_batching_dims", List{});
  ir::Set(attributes, "scatter_dims_to_operand_dims", std::move(map));
  ir::Set(attributes, "index_vector_dim", int64_t{indices->type.rank() - 1});
  ir::Value* operands[] = {x, indices, updates};
  ir::Op* op = p.b.Create(ir::OpKind::kScatter, operands, {&x->type, 1}, std::move(attributes));
  ir::Region* body = p.module->AddRegion(op);
  const ir::Type f32 = ir::Type::Scalar(ElementType::kF32);
  ir::Value* a = p.module->AddArgument(body, f32);
  ir::Value* u = p.module->AddArgument(body, f32);
  ir::Builder b(p.module.get(), body);
  ir::Value* result = add ? b.Binary(ir::OpKind::kAdd, a, u) : u;
  b.Return({&result, 1});
  return op->result();
}

// [i, columns[i]] as advanced indexing writes it.
ir::Value* ArangeAnd(TestProgram& p, ir::Value* columns) {
  const int64_t n = columns->type.dims[0];
  const ir::Type type = ir::Type::Tensor(ElementType::kI32, List{n});
  ir::Value* parts[] = {p.b.Reshape(p.b.Iota(type, 0), List{n, 1}),
                        p.b.Reshape(columns, List{n, 1})};
  return p.b.Concatenate(parts, 1);
}

TEST(Gather, RowsOfASplitTableAreMaskedAndSummed) {
  TestProgram p;
  ir::Value* table = p.Argument({1001, 16}, Sharding{{kY, {}}});
  ir::Value* ids = Indices(p, {6, 1}, Sharding{{{}, {}}});
  ir::Value* y = Gather(p, table, ids, {1, 16}, {0}, {1}, {0}, {6, 16});
  p.Return({p.Constrain(y, Sharding{{{}, {}}})});
  EXPECT_THAT(p.Collectives(), ElementsAre("all_reduce sum f32[6,16] over axes [1] of [2,4]"));
}

TEST(Gather, LongWindowsReachOverTiles) {
  TestProgram p;
  ir::Value* x = p.Argument({1000, 16}, Sharding{{kY, {}}});
  ir::Value* ids = Indices(p, {6, 1}, Sharding{{{}, {}}});
  ir::Value* y = Gather(p, x, ids, {5, 16}, {}, {1, 2}, {0}, {6, 5, 16});
  p.Return({p.Constrain(y, Sharding{{{}, {}, {}}})});
  EXPECT_THAT(p.Collectives(), ElementsAre("all_reduce sum f32[6,5,16] over axes [1] of [2,4]"));
}

TEST(Gather, AnIotaAmongTheIndicesIsABatchDimension) {
  TestProgram p;
  ir::Value* x = p.Argument({63, 40}, Sharding{{kY, {}}});
  ir::Value* columns = Indices(p, {63}, Sharding{{kY}});
  ir::Value* y = Gather(p, x, ArangeAnd(p, columns), {1, 1}, {0, 1}, {}, {0, 1}, {63});
  p.Return({y});
  EXPECT_EQ(p.ShardingOf(y), "[{y}]");
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

TEST(Gather, OneAxisSplitsRowsOrLookupsNotBoth) {
  TestProgram p;
  ir::Value* table = p.Argument({1000, 16}, Sharding{{kY, {}}});
  ir::Value* ids = Indices(p, {64, 1}, Sharding{{kY, {}}});
  ir::Value* y = Gather(p, table, ids, {1, 16}, {0}, {1}, {0}, {64, 16});
  p.Return({p.Constrain(y, Sharding{{kY, {}}})});
  // The indices are gathered, every part gives what it has, and the sum is scattered.
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather i32[16,1]"),
                                           HasSubstr("reduce_scatter sum f32[64,16]")));
}

TEST(Scatter, IntoSplitRowsNeedsNoCollective) {
  for (const bool add : {false, true}) {
    TestProgram p;
    ir::Value* x = p.Argument({65, 8}, Sharding{{kY, {}}});
    ir::Value* ids = Indices(p, {4, 1}, Sharding{{{}, {}}});
    ir::Value* u = p.Argument({4, 8}, Sharding{{{}, {}}});
    ir::Value* y = Scatter(p, x, ids, u, add);
    p.Return({y});
    EXPECT_EQ(p.ShardingOf(y), "[{y}, {}]");
    EXPECT_THAT(p.Collectives(), IsEmpty());
  }
}

TEST(Scatter, LongWindowsIntoSplitRowsNeedNoCollective) {
  TestProgram p;
  ir::Value* x = p.Argument({65, 8}, Sharding{{kY, {}}});
  ir::Value* ids = Indices(p, {4, 1}, Sharding{{{}, {}}});
  ir::Value* u = p.Argument({4, 3, 8}, Sharding{{{}, {}, {}}});
  p.Return({Scatter(p, x, ids, u, false, {}, {1, 2}, {0})});
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

TEST(Scatter, SplitUpdatesAreSummed) {
  TestProgram p;
  ir::Value* x = p.Argument({64, 8}, Sharding{{{}, {}}});
  ir::Value* ids = Indices(p, {4000, 1}, Sharding{{kY, {}}});
  ir::Value* u = p.Argument({4000, 8}, Sharding{{kY, {}}});
  p.Return({p.Constrain(Scatter(p, x, ids, u, true), Sharding{{{}, {}}})});
  EXPECT_THAT(p.Collectives(), ElementsAre("all_reduce sum f32[64,8] over axes [1] of [2,4]"));
}

// XLA's CPU backend loses updates where an index has no component and a tile one element.
TEST(Scatter, WithoutComponentsIsAddressedAtZero) {
  TestProgram p;
  ir::Value* x = p.Argument({4}, Sharding{{kY}});
  ir::Value* u = p.Argument({4, 6}, Sharding{{kY, {}}});
  ir::Value* none = p.b.SplatInt(ir::Type::Tensor(ElementType::kI32, {6, 0}), 0);
  p.Return({p.Constrain(Scatter(p, x, none, u, true, {}, {0}, {}), Sharding{{kY}})});
  const std::string text = p.Text(Backend::kFfi);
  EXPECT_THAT(text, HasSubstr("scatter_dims_to_operand_dims = [0]"));
  EXPECT_THAT(text, HasSubstr("(tensor<1xf32>, tensor<6x1xi32>, tensor<1x6xf32>)"));
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

TEST(Scatter, UpdatesThatOverwriteKeepTheirOrder) {
  TestProgram p;
  ir::Value* x = p.Argument({64, 8}, Sharding{{{}, {}}});
  ir::Value* ids = Indices(p, {4000, 1}, Sharding{{kY, {}}});
  ir::Value* u = p.Argument({4000, 8}, Sharding{{kY, {}}});
  p.Return({p.Constrain(Scatter(p, x, ids, u, false), Sharding{{{}, {}}})});
  // Every part sees all of them, in order, for a part of the columns.
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_gather i32[1000,1]"),
                                           HasSubstr("all_to_all f32[1000,8] split 1 concat 0"),
                                           HasSubstr("all_gather f32[64,2]")));
}

}  // namespace
}  // namespace shardway::spmd
