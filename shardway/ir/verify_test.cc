#include "shardway/ir/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "shardway/ir/builder.h"

namespace shardway::ir {
namespace {

using testing::HasSubstr;

const Type kVector = Type::Tensor(ElementType::kF32, {8});

// main(x: vector) -> what `make` returns, written at "train.py:5".
class Program {
 public:
  explicit Program(const std::function<Value*(Builder&, Value*)>& make) {
    Function* main = module_.AddFunction("main");
    Value* x = module_.AddArgument(main->body, kVector);
    Builder b(&module_, main->body);
    b.set_location(module_.AddLocation({"step", "train.py", 5, 0}));
    Value* y = make(b, x);
    main->result_types = {y->type};
    b.FuncReturn({y});
  }
  Module& module() { return module_; }
  std::string Fault() { return std::string(Verify(module_).message()); }

 private:
  Module module_;
};

std::string FaultOf(OpKind kind, const std::vector<Type>& results, AttrDict attributes,
                    size_t operands = 1) {
  return Program([&](Builder& b, Value* x) {
           return b.Create(kind, std::vector<Value*>(operands, x), results, std::move(attributes))
               ->result();
         })
      .Fault();
}

std::vector<int64_t> Ints(std::initializer_list<int64_t> values) { return values; }

TEST(Verify, NamesOperatorLineAndFault) {
  const std::string fault = FaultOf(OpKind::kTranspose, {kVector}, {{"permutation", Ints({1})}});
  EXPECT_THAT(fault,
              HasSubstr("stablehlo.transpose at train.py:5 (step): its attribute permutation"));
}

TEST(Verify, ShapesOfResults) {
  EXPECT_EQ(FaultOf(OpKind::kSine, {kVector}, {}), "");
  EXPECT_NE(FaultOf(OpKind::kSine, {Type::Scalar(ElementType::kF32)}, {}), "");
  EXPECT_NE(FaultOf(OpKind::kAdd, {kVector}, {}), "");
  EXPECT_EQ(FaultOf(OpKind::kAdd, {kVector}, {}, 2), "");
  EXPECT_NE(FaultOf(OpKind::kReshape, {Type::Tensor(ElementType::kF32, {3, 3})}, {}), "");
  const Type half = Type::Tensor(ElementType::kF32, {4});
  auto slice = [&](int64_t start, int64_t limit, int64_t stride) {
    return FaultOf(OpKind::kSlice, {half},
                   {{"limit_indices", Ints({limit})},
                    {"start_indices", Ints({start})},
                    {"strides", Ints({stride})}});
  };
  EXPECT_EQ(slice(1, 8, 2), "");
  EXPECT_NE(slice(1, 9, 2), "");
  EXPECT_NE(slice(-1, 3, 1), "");
  EXPECT_NE(slice(0, 8, 0), "");
  EXPECT_NE(slice(0, INT64_MAX, INT64_MAX), "");
}

TEST(Verify, AttributesAtTheirExtremes) {
  const auto big = INT64_MAX;
  EXPECT_NE(FaultOf(OpKind::kPad, {kVector},
                    {{"edge_padding_high", Ints({big})},
                     {"edge_padding_low", Ints({big})},
                     {"interior_padding", Ints({big})}},
                    2),
            "");
  EXPECT_NE(FaultOf(OpKind::kAllToAll, {kVector},
                    {{"concat_dimension", int64_t{0}},
                     {"split_count", int64_t{0}},
                     {"split_dimension", int64_t{0}}}),
            "");
  EXPECT_NE(FaultOf(OpKind::kGetTupleElement, {kVector}, {{"index", TypedInt{}}}), "");
  EXPECT_NE(FaultOf(OpKind::kConcatenate, {kVector}, {{"dimension", int64_t{-1}}}), "");
}

TEST(Verify, DotDimensions) {
  auto dot = [](std::vector<int64_t> batch, std::vector<int64_t> contracting, const Type& result) {
    return FaultOf(OpKind::kDotGeneral, {result},
                   {{"lhs_batching_dimensions", batch},
                    {"lhs_contracting_dimensions", contracting},
                    {"rhs_batching_dimensions", batch},
                    {"rhs_contracting_dimensions", contracting}},
                   2);
  };
  EXPECT_EQ(dot({}, {0}, Type::Scalar(ElementType::kF32)), "");
  EXPECT_EQ(dot({0}, {}, kVector), "");
  EXPECT_NE(dot({0}, {0}, kVector), "");
  EXPECT_NE(dot({}, {1}, kVector), "");
}

TEST(Verify, Scopes) {
  Program program([](Builder& b, Value* x) {
    Op* branch = b.Create(OpKind::kIf, {b.Splat(Type::Scalar(ElementType::kI1), 1)}, {kVector});
    Region* outer = b.region();
    Value* inside = nullptr;
    for (int i = 0; i < 2; ++i) {
      b.set_region(b.module()->AddRegion(branch));
      inside = b.Unary(OpKind::kSine, x);
      b.Return({inside});
    }
    b.set_region(outer);
    return b.Unary(OpKind::kCosine, inside);
  });
  EXPECT_THAT(program.Fault(), HasSubstr("stablehlo.cosine at train.py:5 (step): it uses a value "
                                         "that is not in scope"));
}

TEST(Verify, CallsThatNeverEnd) {
  Program program([](Builder& b, Value* x) {
    return b.Create(OpKind::kCall, {x}, {kVector}, {{"callee", FlatSymbolRef{"main"}}})->result();
  });
  EXPECT_THAT(program.Fault(), HasSubstr("@main calls itself"));
}

TEST(Verify, CallsThatGrowBeyondBounds) {
  Program program([](Builder& b, Value* x) {
    return b.Create(OpKind::kCall, {x}, {kVector}, {{"callee", FlatSymbolRef{"f0"}}})->result();
  });
  constexpr int kLevels = 40;  // each calls the next twice
  for (int i = 0; i < kLevels; ++i) {
    Function* f = program.module().AddFunction("f" + std::to_string(i));
    Value* x = program.module().AddArgument(f->body, kVector);
    f->result_types = {kVector};
    Builder b(&program.module(), f->body);
    for (int calls = 0; calls < 2 && i + 1 < kLevels; ++calls) {
      x = b.Create(OpKind::kCall, {x}, {kVector},
                   {{"callee", FlatSymbolRef{"f" + std::to_string(i + 1)}}})
              ->result();
    }
    b.FuncReturn({x});
  }
  EXPECT_THAT(program.Fault(), HasSubstr("grows beyond all bounds"));
}

TEST(Verify, Shardings) {
  auto fault = [](const SdySharding& sharding) {
    Program program([&](Builder& b, Value* x) {
      return b.Create(OpKind::kSdyShardingConstraint, {x}, {kVector}, {{"sharding", sharding}})
          ->result();
    });
    program.module().meshes = {{"mesh", SdyMesh{{{"x", 4}, {"y", 2}}, {}}}};
    return program.Fault();
  };
  auto by = [](std::vector<SdyAxisRef> axes) {
    SdySharding sharding;
    sharding.mesh_name = "mesh";
    sharding.dims.push_back({std::move(axes)});
    return sharding;
  };
  EXPECT_EQ(fault(by({{"x", {}}, {"y", {}}})), "");
  EXPECT_EQ(fault(by({{"x", {{2, 2}}}, {"x", {{1, 2}}}})), "");
  EXPECT_NE(fault(by({{"x", {}}, {"x", {{1, 2}}}})), "");
  EXPECT_THAT(fault(by({{"z", {}}})),
              HasSubstr("train.py:5 (step): its tensor<8xf32>: a sharding names the axis \"z\", "
                        "which its mesh lacks: that is x=4,y=2"));
  EXPECT_THAT(fault(by({{"x", {{3, 2}}}})),
              HasSubstr("a sharding names the sub-axis \"x:(3)2\", but 3 times 2 does not divide "
                        "the axis: its mesh is x=4,y=2"));
  SdySharding other = by({});
  other.mesh_name = "elsewhere";
  EXPECT_NE(fault(other), "");
  other = by({});
  other.dims.clear();
  EXPECT_NE(fault(other), "");
}

TEST(Verify, ShardingsOfArgumentsAndResultsNameThem) {
  Program program([](Builder&, Value* x) { return x; });
  Module& module = program.module();
  module.meshes = {{"mesh", SdyMesh{{{"x", 4}, {"y", 2}}, {}}}};
  SdySharding sharding;
  sharding.mesh_name = "mesh";
  sharding.dims.push_back({{{"z", {}}}});
  Function& main = *module.main();
  main.arg_attrs.resize(1);
  main.result_attrs.resize(1);
  Set(main.result_attrs[0], "jax.result_info", std::string("result['loss']"));
  Set(main.result_attrs[0], "sdy.sharding", sharding);
  EXPECT_THAT(program.Fault(), HasSubstr("result 0 (result['loss']: tensor<8xf32>): a sharding "
                                         "names the axis \"z\", which its mesh lacks"));
  main.location = module.AddLocation({"", "train.py", 3, 0});
  Set(main.arg_attrs[0], "sdy.sharding", sharding);
  EXPECT_THAT(program.Fault(), HasSubstr("argument 0 (tensor<8xf32>) at train.py:3: a sharding"));
  main.arguments()[0]->location = module.AddLocation({"params['w']", "", 0, 0});
  EXPECT_THAT(program.Fault(),
              HasSubstr("argument 0 (params['w']: tensor<8xf32>) at train.py:3: a sharding"));
  main.arguments()[0]->location = module.AddLocation({"x", "model.py", 7, 2});
  EXPECT_THAT(program.Fault(), HasSubstr("argument 0 (x: tensor<8xf32>) at model.py:7:2: a"));
}

TEST(Verify, ElementTypes) {
  const Type ints = Type::Tensor(ElementType::kI32, {8});
  auto of_ints = [&](OpKind kind) {
    return Program([&](Builder& b, Value* x) {
             Value* y = b.Create(OpKind::kConvert, {x}, {ints}, {})->result();
             return b.Create(kind, {y}, {ints}, {})->result();
           })
        .Fault();
  };
  EXPECT_EQ(of_ints(OpKind::kPopcnt), "");
  EXPECT_THAT(of_ints(OpKind::kTan), HasSubstr("does not compute with such elements"));
  EXPECT_NE(FaultOf(OpKind::kNot, {kVector}, {}), "");
}

// A reduction of 8 elements by a body of these elements from `init`, to `result`.
std::string ReductionFault(ElementType body, ElementType init, ElementType result) {
  return Program([&](Builder& b, Value* x) {
           Value* first = b.SplatInt(Type::Scalar(init), 0);
           AttrDict attributes;
           Set(attributes, "dimensions", Ints({0}));
           Op* op = b.Create(OpKind::kReduce, std::vector<Value*>{x, first},
                             std::vector<Type>{Type::Scalar(result)}, std::move(attributes));
           Region* region = b.module()->AddRegion(op);
           Value* left = b.module()->AddArgument(region, Type::Scalar(body));
           Value* right = b.module()->AddArgument(region, Type::Scalar(body));
           Builder inside(b.module(), region);
           inside.Return({inside.Binary(OpKind::kAdd, left, right)});
           return op->result();
         })
      .Fault();
}

TEST(Verify, ElementsOfReducers) {
  constexpr ElementType kF32 = ElementType::kF32, kF64 = ElementType::kF64;
  EXPECT_EQ(ReductionFault(kF32, kF32, kF32), "");
  EXPECT_THAT(ReductionFault(kF64, kF32, kF32),
              HasSubstr("a region does not map scalars (f32, f32) to (f32)"));
  EXPECT_THAT(ReductionFault(kF32, kF64, kF32), HasSubstr("convert the input first"));
  EXPECT_THAT(ReductionFault(kF64, kF64, kF64), HasSubstr("convert the input first"));
}

TEST(Verify, Groups) {
  auto fault = [](std::vector<int64_t> ids, AttrDict attributes = {}) {
    const int64_t size = static_cast<int64_t>(ids.size());
    Set(attributes, "all_gather_dim", int64_t{0});
    Set(attributes, "replica_groups",
        Constant::FromInts(Type::Tensor(ElementType::kI64, {1, size}), ids));
    return FaultOf(OpKind::kAllGather, {Type::Tensor(ElementType::kF32, {16})}, attributes);
  };
  EXPECT_EQ(fault({1, 0}), "");
  EXPECT_THAT(fault({0, 2}), HasSubstr("leave a device out"));
  EXPECT_THAT(fault({0, 0}), HasSubstr("twice"));
  EXPECT_THAT(fault({0, 1}, {{"use_global_device_ids", true}}), HasSubstr("no channel"));
}

TEST(Verify, CustomCalls) {
  auto fault = [](const char* name, Attribute value) {
    AttrDict attributes = {{"call_target_name", std::string("f")}};
    Set(attributes, name, std::move(value));
    return FaultOf(OpKind::kCustomCall, {kVector}, attributes);
  };
  auto layouts = [](std::initializer_list<int64_t> dims) {
    return Attribute(std::make_shared<const AttrArray>(AttrArray{Ints(dims)}));
  };
  EXPECT_EQ(fault("operand_layouts", layouts({0})), "");
  EXPECT_THAT(fault("operand_layouts", layouts({1})), HasSubstr("no permutation"));
  EXPECT_NE(fault("result_layouts", layouts({})), "");
  EXPECT_NE(fault("api_version", TypedInt{ElementType::kI32, 5}), "");
  EXPECT_NE(fault("api_version", int64_t{1}), "");
  SdyShardingRule rule;
  rule.factor_sizes = {8, 2};
  rule.operands = {{{0}}};
  rule.results = {{{0}}};
  EXPECT_EQ(fault("sdy.sharding_rule", rule), "");
  rule.need_replication_factors = {1};
  EXPECT_EQ(fault("sdy.sharding_rule", rule), "");
  rule.reduction_factors = {1};
  EXPECT_THAT(fault("sdy.sharding_rule", rule), HasSubstr("a factor of two kinds"));
  rule.reduction_factors = {2};
  EXPECT_THAT(fault("sdy.sharding_rule", rule), HasSubstr("a missing factor"));
  rule.reduction_factors.clear();
  rule.results = {{{-3}}};
  EXPECT_NE(fault("sdy.sharding_rule", rule), "");
  rule.results = {{{0}, {1}}};
  EXPECT_THAT(fault("sdy.sharding_rule", rule), HasSubstr("a mapping of rank 2"));
}

TEST(Verify, AttributesOfADialect) {
  Program program([](Builder&, Value* x) { return x; });
  program.module().attributes = {{"mhlo.num_partitions", int64_t{8}}};
  EXPECT_EQ(program.Fault(), "");
  program.module().attributes = {{"mhlo\xff", int64_t{8}}};
  EXPECT_THAT(program.Fault(), HasSubstr("\"mhlo\\377\" names no dialect"));
}

TEST(Verify, NeedsMain) {
  Module module;
  EXPECT_FALSE(Verify(module).ok());
}

}  // namespace
}  // namespace shardway::ir
