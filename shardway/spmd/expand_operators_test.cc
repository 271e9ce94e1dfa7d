#include "shardway/spmd/expand_operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/room.h"
#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using K = ir::OpKind;

ir::Type I32(std::vector<int64_t> dims) { return ir::Type::Tensor(ElementType::kI32, dims); }

class Expanded : public TestProgram {
 public:
  ir::Value* Op(K kind, std::vector<ir::Value*> operands, const ir::Type& type,
                ir::AttrDict attributes = {}) {
    b.set_location(Line(7));
    return b.Create(kind, operands, {&type, 1}, std::move(attributes))->result();
  }
  ir::Value* Ints(std::vector<int64_t> values) { return b.IntVector(ElementType::kI32, values); }
  const ir::Location* Line(int line) {
    return module->AddLocation({.name = "", .file = "train.py", .line = line, .column = 1});
  }
  absl::Status Expand(std::vector<ir::Value*> values) {
    for (const ir::Value* v : values) main->result_types.push_back(v->type);
    main->result_attrs.resize(values.size());
    b.FuncReturn(values);
    program.manual.resize(module->num_values());
    return ExpandOperators(program);
  }
  // Also partitions; the results are kept as `wanted`.
  void Finish(std::vector<ir::Value*> values, const std::vector<Sharding>& wanted) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = Constrain(values[i], wanted[i]);
    ASSERT_EQ(Expand(values), absl::OkStatus());
    rules = std::make_unique<Rules>(program);
    shardings = Propagate(program, *rules);
  }
  std::vector<std::string> Operators() const {
    std::vector<std::string> names;
    for (const ir::Op* op : main->body->ops) {
      const std::string name(ir::OpKindName(op->kind));
      if (op->kind == K::kConstant || op->kind == K::kFuncReturn) continue;
      if (op->kind != K::kSdyShardingConstraint) names.push_back(name.substr(name.find('.') + 1));
    }
    return names;
  }
};

Sharding Split(std::vector<AxisList> dims) {
  Sharding sharding;
  for (AxisList& axes : dims) sharding.dims.push_back(std::move(axes));
  return sharding;
}
const AxisList kNone;

TEST(ExpandOperators, ADotIsSplitAsAProduct) {
  Expanded p;
  ir::Value* a = p.Argument({64, 32}, Split({kX, kNone}));
  ir::Value* c = p.Argument({32, 16}, Split({kNone, kY}));
  p.Finish({p.Op(K::kDot, {a, c}, p.F32({64, 16}))}, {Split({kX, kY})});
  EXPECT_THAT(p.Operators(), ElementsAre("dot_general"));
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

struct EinsumCase {
  const char* config;
  std::vector<std::vector<int64_t>> operands;
  std::vector<int64_t> result;
  std::vector<std::string> operators;
};

TEST(ExpandOperators, AnEinsumIsOneProductWithSumsBeforeIt) {
  const std::vector<EinsumCase> cases = {
      {"ab,bc->ac", {{64, 32}, {32, 16}}, {64, 16}, {"dot_general"}},
      {"ab, bc -> ca", {{64, 32}, {32, 16}}, {16, 64}, {"dot_general", "transpose"}},
      {"abc,bd->bad", {{2, 3, 4}, {3, 5}}, {3, 2, 5}, {"reduce", "dot_general"}},
      {"...ab,...bc->...ac", {{7, 2, 3}, {7, 3, 5}}, {7, 2, 5}, {"dot_general"}},
      {"...ab,...bc->...ac",
       {{1, 2, 3}, {7, 3, 5}},
       {7, 2, 5},
       {"reshape", "dot_general", "transpose"}},
      {"ab,b->a", {{4, 1}, {5}}, {4}, {"reshape", "reduce", "dot_general"}},
      {"aa,ab->b",
       {{4, 4}, {4, 5}},
       {5},
       {"iota", "iota", "compare", "select", "reduce", "dot_general"}},
      {"abc->ca", {{9, 7, 3}}, {3, 9}, {"reduce", "transpose"}},
      {"ab->ab", {{9, 7}}, {9, 7}, {}},
      {"...a->...", {{9, 7, 3}}, {9, 7}, {"reduce"}},
      {"a->", {{9}}, {}, {"reduce"}},
  };
  for (const EinsumCase& c : cases) {
    SCOPED_TRACE(c.config);
    Expanded p;
    std::vector<ir::Value*> operands;
    for (const auto& dims : c.operands) {
      Sharding whole;
      whole.dims.resize(dims.size());
      operands.push_back(p.Argument(dims, whole));
    }
    const K kind = operands.size() == 2 ? K::kEinsum : K::kUnaryEinsum;
    ir::Value* r =
        p.Op(kind, operands, p.F32(c.result), {{"einsum_config", std::string(c.config)}});
    ASSERT_EQ(p.Expand({r}), absl::OkStatus());
    EXPECT_EQ(p.Operators(), c.operators);
    EXPECT_EQ(p.main->body->terminator()->operand(0)->type, p.F32(c.result));
  }
}

TEST(ExpandOperators, AnEinsumThatFitsNothingIsAnError) {
  const std::vector<std::string> configs = {
      "ab,bc",           "ab->a",      "ab,bc->ad", "ab,bc->aa",  "abc,bc->ac", "a.b,bc->ac",
      "......ab,bc->ac", "ab,bc->abc", "aa,bc->ac", "ab,cd->ac,", "a1,bc->ac",  "ab,ac->ac",
  };
  for (const std::string& config : configs) {
    Expanded p;
    ir::Value* a = p.Argument({8, 4}, Split({kX, kNone}));
    ir::Value* c = p.Argument({4, 16}, Split({kNone, kY}));
    ir::Value* r = p.Op(K::kEinsum, {a, c}, p.F32({8, 16}), {{"einsum_config", config}});
    const absl::Status status = p.Expand({r});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << config << ": " << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("stablehlo.einsum"), HasSubstr("train.py:7")));
  }
}

ir::AttrDict OfFeature(int64_t feature) {
  return {{"epsilon", ir::TypedFloat{ElementType::kF32, 0.001}}, {"feature_index", feature}};
}

// A split batch sends two numbers for each feature, features that are split send nothing.
TEST(ExpandOperators, BatchNormTrainingSumsOverTheBatch) {
  for (const bool features : {false, true}) {
    Expanded p;
    const AxisList over = features ? kX : kNone;
    const Sharding image = features ? Split({kNone, kNone, kX}) : Split({kX, kNone, kNone});
    ir::Value* x = p.Argument({16, 8, 32}, image);
    ir::Value* scale = p.Argument({32}, Split({over}));
    ir::Value* offset = p.Argument({32}, Split({over}));
    p.b.set_location(p.Line(7));
    const ir::Type types[] = {x->type, scale->type, scale->type};
    ir::Op* norm = p.b.Create(K::kBatchNormTraining, {x, scale, offset}, types, OfFeature(2));
    p.Finish(norm->results, {image, Split({over}), Split({over})});
    if (features) {
      EXPECT_THAT(p.Collectives(), IsEmpty());
    } else {
      EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[32]"),
                                               HasSubstr("all_reduce sum f32[32]")));
    }
  }
}

TEST(ExpandOperators, BatchNormInferenceSendsNothing) {
  Expanded p;
  ir::Value* x = p.Argument({16, 8, 32}, Split({kX, kY, kNone}));
  ir::Value* v = p.Argument({32}, Split({kNone}));
  ir::Value* y = p.Op(K::kBatchNormInference, {x, v, v, v, v}, x->type, OfFeature(2));
  p.Finish({y}, {Split({kX, kY, kNone})});
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

TEST(ExpandOperators, TheSumsOfABatchNormGradientTravelTogether) {
  Expanded p;
  ir::Value* x = p.Argument({16, 8, 32}, Split({kX, kNone, kNone}));
  ir::Value* v = p.Argument({32}, Split({kNone}));
  const ir::Type types[] = {x->type, v->type, v->type};
  ir::Op* norm = p.b.Create(K::kBatchNormGrad, {x, v, v, v, x}, types, OfFeature(2));
  p.Finish(norm->results, {Split({kX, kNone, kNone}), Split({kNone}), Split({kNone})});
  EXPECT_THAT(p.Collectives(), ElementsAre(HasSubstr("all_reduce sum f32[32], f32[32]")));
}

TEST(ExpandOperators, TorchIndexSelectLooksUpInParts) {
  Expanded p;
  ir::Value* x = p.Argument({4, 5, 64, 8}, Split({kX, kNone, kNone, kY}));
  ir::Value* indices = p.module->AddArgument(p.main->body, I32({4, 3, 2}));
  p.main->arg_attrs.emplace_back();
  p.Annotate(indices, Split({kX, kNone, kNone}));
  ir::Value* r = p.Op(K::kTorchIndexSelect, {x, indices}, p.F32({4, 5, 3, 2, 8}),
                      {{"batch_dims", int64_t{1}}, {"dim", int64_t{2}}});
  p.Finish({r}, {Split({kX, kNone, kNone, kNone, kY})});
  EXPECT_THAT(p.Operators(), ElementsAre("gather"));
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

TEST(ExpandOperators, WhatDoesNotFitNamesTheOperatorAsItWasWritten) {
  Expanded p;
  ir::Value* x = p.Argument({4, 8}, Split({kX, kNone}));
  ir::Value* indices = p.module->AddArgument(p.main->body, I32({3, 2}));
  ir::Value* r = p.Op(K::kTorchIndexSelect, {x, indices}, p.F32({4, 2}),
                      {{"batch_dims", int64_t{1}}, {"dim", int64_t{1}}});
  const absl::Status status = p.Expand({r});
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("stablehlo.torch_index_select at train.py:7"),
                    HasSubstr("its batching dimensions differ in size")));
}

// Shapes come as JAX leaves them: numbers, put together.
TEST(ExpandOperators, ShapesAreFoundThroughTheirArithmetic) {
  Expanded p;
  ir::Value* x = p.Argument({64, 32}, Split({kX, kNone}));
  ir::Value* zero = p.b.Splat(p.F32({}), 0);
  ir::Value* rows = p.Op(K::kGetDimensionSize, {x}, I32({}), {{"dimension", int64_t{1}}});
  ir::Value* half = p.b.Binary(K::kDivide, rows, p.b.SplatInt(I32({}), 16));
  ir::Value* none = p.Ints({0});
  ir::Value* parts[] = {none, p.b.Reshape(half, {1})};
  ir::Value* two = p.b.Concatenate(parts, 0);
  ir::Value* wide = p.Op(K::kDynamicPad, {x, zero, two, two, p.Ints({0, 0})}, p.F32({64, 36}));
  p.Finish({wide}, {Split({kX, kNone})});
  EXPECT_THAT(p.Collectives(), IsEmpty());
  EXPECT_EQ(p.Operators().back(), "pad");
}

TEST(ExpandOperators, AShapeNeedNotBeKnownWhereTheResultHasIt) {
  Expanded p;
  ir::Value* x = p.Argument({64, 32}, Split({kX, kY}));
  ir::Value* shape = p.module->AddArgument(p.main->body, I32({3}));
  p.main->arg_attrs.emplace_back();
  p.Annotate(shape, Split({kNone}));
  ir::Value* wide = p.Op(K::kDynamicBroadcastInDim, {x, shape}, p.F32({8, 64, 32}),
                         {{"broadcast_dimensions", std::vector<int64_t>{1, 2}}});
  ir::Value* split = p.Op(K::kDynamicReshape, {x, shape}, p.F32({64, 4, 8}));
  ir::Value* count =
      p.Op(K::kDynamicIota, {shape}, p.F32({8, 64, 32}), {{"iota_dimension", int64_t{1}}});
  p.Finish({wide, split, count},
           {Split({kNone, kX, kY}), Split({kX, kY, kNone}), Split({kNone, kX, kY})});
  EXPECT_THAT(p.Operators(), ElementsAre("broadcast_in_dim", "reshape", "iota"));
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

TEST(ExpandOperators, ARealDynamicSliceIsASliceOrADynamicOne) {
  Expanded p;
  ir::Value* x = p.Argument({64, 32}, Split({kX, kNone}));
  ir::Value* starts = p.module->AddArgument(p.main->body, I32({2}));
  p.main->arg_attrs.emplace_back();
  p.Annotate(starts, Split({kNone}));
  ir::Value* known = p.Op(K::kRealDynamicSlice,
                          {x, p.Ints({0, 1}), p.Ints({64, 8}), p.Ints({1, 3})}, p.F32({64, 3}));
  ir::Value* sizes =
      p.Op(K::kRealDynamicSlice, {x, starts, starts, p.Ints({1, 3})}, p.F32({64, 3}));
  ASSERT_EQ(p.Expand({known, sizes}), absl::OkStatus());
  EXPECT_THAT(p.Operators(), ElementsAre("slice", "slice", "reshape", "slice", "reshape",
                                         "dynamic_slice", "slice"));
}

TEST(ExpandOperators, WindowsAndPaddingOfDynamicOnesAreTheirs) {
  Expanded p;
  ir::Value* x = p.Argument({9, 7}, Split({kNone, kNone}));
  ir::Value* image = p.Argument({1, 9, 9, 3}, Split({kNone, kNone, kNone, kNone}));
  ir::Value* kernel = p.Argument({3, 3, 3, 5}, Split({kNone, kNone, kNone, kNone}));
  ir::AttrDict gather, conv;
  using List = std::vector<int64_t>;
  ir::Set(gather, "offset_dims", List{1});
  ir::Set(gather, "collapsed_slice_dims", List{0});
  ir::Set(gather, "operand_batching_dims", List{});
  ir::Set(gather, "start_indices_batching_dims", List{});
  ir::Set(gather, "start_index_map", List{0});
  ir::Set(gather, "index_vector_dim", int64_t{1});
  for (const char* side : {"input", "output"}) {
    ir::Set(conv, std::string(side) + "_batch_dimension", int64_t{0});
    ir::Set(conv, std::string(side) + "_spatial_dimensions", List{1, 2});
    ir::Set(conv, std::string(side) + "_feature_dimension", int64_t{3});
  }
  ir::Set(conv, "kernel_spatial_dimensions", List{0, 1});
  ir::Set(conv, "kernel_input_feature_dimension", int64_t{2});
  ir::Set(conv, "kernel_output_feature_dimension", int64_t{3});
  for (const char* ones : {"window_strides", "lhs_dilation", "rhs_dilation"})
    ir::Set(conv, ones, List{1, 1});
  ir::Set(conv, "window_reversal", std::vector<bool>{false, false});
  ir::Value* rows =
      p.Op(K::kDynamicGather, {x, p.Ints({1, 8}), p.Ints({1, 7})}, p.F32({2, 7}), gather);
  ir::Value* padding = p.b.Reshape(p.Ints({1, 1, 1, 0}), {2, 2});
  ir::Value* out = p.Op(K::kDynamicConv, {image, kernel, padding}, p.F32({1, 9, 8, 5}), conv);
  ASSERT_EQ(p.Expand({rows, out}), absl::OkStatus());
  const auto& returned = p.main->body->terminator()->operands;
  EXPECT_EQ(returned[0]->def->kind, K::kGather);
  EXPECT_EQ(returned[0]->def->IntList("slice_sizes"), (List{1, 7}));
  EXPECT_EQ(returned[1]->def->kind, K::kConvolution);
  EXPECT_EQ(returned[1]->def->IntList("padding"), (List{1, 1, 1, 0}));
}

TEST(ExpandOperators, WhatIsKnownOnlyLaterIsNamedWithItsLine) {
  const ir::Type open = ir::Type::Tensor(ElementType::kF32, {ir::kDynamic, 32});
  for (const K kind :
       {K::kDynamicPad, K::kSetDimensionSize, K::kDynamicReshape, K::kAbs, K::kRealDynamicSlice}) {
    Expanded p;
    ir::Value* x = p.Argument({64, 32}, Split({kX, kNone}));
    ir::Value* zero = p.b.Splat(p.F32({}), 0);
    ir::Value* sizes = p.module->AddArgument(p.main->body, I32({2}));
    ir::Value* size = p.module->AddArgument(p.main->body, I32({}));
    ir::Value* r = nullptr;
    if (kind == K::kDynamicPad) r = p.Op(kind, {x, zero, sizes, sizes, sizes}, p.F32({70, 32}));
    if (kind == K::kSetDimensionSize) r = p.Op(kind, {x, size}, open, {{"dimension", int64_t{0}}});
    if (kind == K::kDynamicReshape) r = p.Op(kind, {x, sizes}, open);
    if (kind == K::kAbs) r = p.Op(kind, {x}, open);
    if (kind == K::kRealDynamicSlice) r = p.Op(kind, {x, sizes, sizes, sizes}, p.F32({3, 3}));
    const absl::Status status = p.Expand({r});
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(std::string(ir::OpKindName(kind))), HasSubstr("train.py:7"),
                      HasSubstr("known only when the program runs")));
  }
}

TEST(ExpandOperators, OneDeviceHasWhatXlaHas) {
  Expanded p;
  p.program.mesh = *Mesh::Make(1, std::vector<sharding::Stride>{});
  ir::Value* x = p.module->AddArgument(p.main->body, p.F32({64, 32}));
  ir::Value* size = p.module->AddArgument(p.main->body, I32({}));
  const ir::Type open = ir::Type::Tensor(ElementType::kF32, {ir::kDynamic, 32});
  ir::Value* r = p.Op(K::kSetDimensionSize, {x, size}, open, {{"dimension", int64_t{0}}});
  ir::Value* n = p.Op(K::kGetDimensionSize, {r}, I32({}), {{"dimension", int64_t{0}}});
  ASSERT_EQ(p.Expand({n}), absl::OkStatus());
  EXPECT_THAT(p.Operators(), ElementsAre("set_dimension_size", "get_dimension_size"));
}

TEST(ExpandOperators, TuplesAreTheirValues) {
  Expanded p;
  ir::Value* x = p.Argument({64, 32}, Split({kX, kY}));
  ir::Value* inner = p.b.Tuple(std::vector<ir::Value*>{x, x});
  ir::Value* outer = p.b.Tuple(std::vector<ir::Value*>{inner, x});
  ir::Value* r = p.b.GetTupleElement(p.b.GetTupleElement(outer, 0), 1);
  p.Finish({r}, {Split({kX, kY})});
  EXPECT_THAT(p.Operators(), IsEmpty());
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

TEST(ExpandOperators, ATupleThatIsHandedOnStays) {
  Expanded p;
  ir::Value* x = p.Argument({64, 32}, Split({kX, kY}));
  ir::Value* tuple = p.b.Tuple(std::vector<ir::Value*>{x, x});
  ir::Value* r = p.b.GetTupleElement(tuple, 1);
  ASSERT_EQ(p.Expand({tuple, r}), absl::OkStatus());
  EXPECT_THAT(p.Operators(), ElementsAre("tuple"));
  EXPECT_EQ(p.main->body->terminator()->operand(1), x);
}

TEST(ExpandOperators, WhatIsStartedIsDoneThere) {
  Expanded p;
  ir::Value* x = p.Argument({64, 32}, Split({kX, kNone}));
  const ir::Type future = ir::Type::Future({x->type});
  ir::Op* start = p.b.Create(K::kAsyncStart, {x}, {&future, 1});
  ir::Region* inner = p.module->AddRegion(start);
  ir::Builder in(p.module.get(), inner);
  ir::Value* reversed = in.Create(K::kReverse, {p.module->AddArgument(inner, x->type)}, {x->type},
                                  {{"dimensions", std::vector<int64_t>{1}}})
                            ->result();
  in.Return({&reversed, 1});
  ir::Value* done = p.b.Create(K::kAsyncDone, {start->result()}, {x->type})->result();
  p.Finish({done}, {Split({kX, kNone})});
  EXPECT_THAT(p.Operators(), ElementsAre("reverse"));
  EXPECT_THAT(p.Collectives(), IsEmpty());
}

// What the user says of a result is said of what stands for it, and not of another value of theirs.
TEST(ExpandOperators, AnnotationsAndLinesStay) {
  Expanded p;
  ir::Value* x = p.Argument({64, 32}, Split({kNone, kNone}));
  ir::Value* v = p.Argument({32}, Split({kNone}));
  ir::Value* y = p.Op(K::kBatchNormInference, {x, v, v, v, v}, x->type, OfFeature(1));
  p.Annotate(y, Split({kX, kY}));
  ir::Value* same = p.b.GetTupleElement(p.b.Tuple(std::vector<ir::Value*>{x}), 0);
  p.Annotate(same, Split({kY, kNone}));
  p.program.groups.push_back({y});
  ASSERT_EQ(p.Expand({y, same}), absl::OkStatus());
  const auto& returned = p.main->body->terminator()->operands;
  EXPECT_EQ(p.program.annotations.at(returned[0]->id).sharding, Split({kX, kY}));
  EXPECT_EQ(returned[0]->def->location->line, 7);
  EXPECT_EQ(p.program.groups[0][0], returned[0]);
  EXPECT_EQ(p.program.annotations.at(returned[1]->id).sharding, Split({kY, kNone}));
  EXPECT_EQ(p.program.annotations.at(x->id).sharding, Split({kNone, kNone}));
}

TEST(ExpandOperators, WhatIsManualStaysSo) {
  Expanded p;
  ir::Value* a = p.Argument({64, 32}, Split({kNone, kNone}));
  ir::Value* r =
      p.Op(K::kEinsum, {a, a}, p.F32({64}), {{"einsum_config", std::string("ab,cb->a")}});
  p.program.manual.resize(p.module->num_values());
  p.program.manual[r->id] = 1;
  ASSERT_EQ(p.Expand({r}), absl::OkStatus());
  for (const ir::Op* op : p.main->body->ops) {
    for (const ir::Value* v : op->results) EXPECT_EQ(p.program.manual_of(v), 1u);
  }
}

TEST(ExpandOperators, InsideLoopsToo) {
  Expanded p;
  ir::Value* x = p.Argument({64, 64}, Split({kNone, kX}));
  ir::Value* r = Loop(p, x, x, x, [](ir::Builder& in, ir::Value* state, ir::Value* a, ir::Value*) {
    return in.Create(K::kDot, {state, a}, {state->type})->result();
  });
  ASSERT_EQ(p.Expand({r}), absl::OkStatus());
  const ir::Region* body = r->def->regions[1];
  EXPECT_EQ(body->terminator()->operand(1)->def->kind, K::kDotGeneral);
}

}  // namespace
}  // namespace shardway::spmd
