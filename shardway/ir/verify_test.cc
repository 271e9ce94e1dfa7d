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
  EXPECT_NE(fault(by({{"z", {}}})), "");
  EXPECT_NE(fault(by({{"x", {{3, 2}}}})), "");
  SdySharding other = by({});
  other.mesh_name = "elsewhere";
  EXPECT_NE(fault(other), "");
  other = by({});
  other.dims.clear();
  EXPECT_NE(fault(other), "");
}

TEST(Verify, NeedsMain) {
  Module module;
  EXPECT_FALSE(Verify(module).ok());
}

}  // namespace
}  // namespace shardway::ir
