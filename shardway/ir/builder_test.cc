#include "shardway/ir/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/ir/clone.h"
#include "shardway/ir/text_writer.h"
#include "shardway/ir/verify.h"

namespace shardway::ir {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

const Type kMatrix = Type::Tensor(ElementType::kF32, {4, 6});

TEST(Builder, HalvesOfComplexNumbers) {
  Module module;
  Function* main = module.AddFunction("main");
  Value* x = module.AddArgument(main->body, Type::Tensor(ElementType::kC128, {3}));
  Builder b(&module, main->body);
  EXPECT_EQ(b.Real(x)->type, Type::Tensor(ElementType::kF64, {3}));
  EXPECT_EQ(b.Complex(b.Imag(x), b.Real(x))->type, x->type);
  EXPECT_EQ(b.Barrier(x)->def->kind, OpKind::kOptimizationBarrier);
}

// main(x) = while (i < 3) { x *= 2 }, then a few shape operators.
std::unique_ptr<Module> Sample() {
  auto module = std::make_unique<Module>();
  module->name = "sample";
  Function* main = module->AddFunction("main");
  main->is_public = true;
  Value* x = module->AddArgument(main->body, kMatrix);
  Builder b(module.get(), main->body);
  b.set_location(module->AddLocation({"scale", "train.py", 7, 3}));
  const Type index = Type::Scalar(ElementType::kI32);
  Op* loop = b.Create(OpKind::kWhile, {b.SplatInt(index, 0), x}, {index, kMatrix});
  for (const bool is_body : {false, true}) {
    Region* region = module->AddRegion(loop);
    Value* i = module->AddArgument(region, index);
    Value* y = module->AddArgument(region, kMatrix);
    b.set_region(region);
    if (is_body) {
      Value* next = b.Binary(OpKind::kAdd, i, b.SplatInt(index, 1));
      b.Return({next, b.Binary(OpKind::kMultiply, y, b.Splat(kMatrix, 2))});
    } else {
      b.Return({b.Compare("LT", i, b.SplatInt(index, 3))});
    }
  }
  b.set_region(main->body);
  Value* y = b.Transpose(loop->result(1), {1, 0});
  y = b.Slice(y, {1, 0}, {5, 4}, {2, 1});
  y = b.Pad(y, b.Splat(Type::Scalar(ElementType::kF32), 0), {0, 1}, {2, -1});
  y = b.Concatenate({y, y}, 0);
  y = b.Reshape(b.BroadcastInDim(y, {2, 8, 4}, {1, 2}), {64});
  main->result_types = {y->type};
  b.FuncReturn({y});
  return module;
}

TEST(Builder, InfersShapes) {
  const auto module = Sample();
  EXPECT_EQ(module->main()->result_types[0], Type::Tensor(ElementType::kF32, {64}));
  EXPECT_TRUE(Verify(*module).ok()) << Verify(*module);
}

TEST(TextWriter, WritesWhatXlaParses) {
  TextOptions options;
  options.locations = Locations::kInline;
  const std::string text = WriteText(*Sample(), options);
  EXPECT_THAT(text, HasSubstr("module @sample {"));
  EXPECT_THAT(text, HasSubstr("func.func public @main(%0: tensor<4x6xf32>) -> (tensor<64xf32>) {"));
  EXPECT_THAT(text, HasSubstr("%2:2 = \"stablehlo.while\"(%1, %0)"));
  EXPECT_THAT(text, HasSubstr("(%2#1) {permutation = array<i64: 1, 0>}"));
  EXPECT_THAT(text, HasSubstr("dense<2.0> : tensor<4x6xf32>"));
  EXPECT_THAT(text, HasSubstr("loc(\"scale\"(\"train.py\":7:3))"));
}

TEST(TextWriter, WritesEachLocationOnceInATable) {
  Module module;
  Function* main = module.AddFunction("main");
  Builder b(&module, main->body);
  Value* x = module.AddArgument(main->body, kMatrix);
  x->location = module.AddLocation({"x", "", 0, 0});
  b.set_location(module.AddLocation({"jit(f)/add", "train.py", 7, 3}));
  Value* y = b.Binary(OpKind::kAdd, x, b.Binary(OpKind::kAdd, x, x));
  b.set_location(nullptr);
  b.FuncReturn({y});
  TextOptions options;
  options.locations = Locations::kTable;
  const std::string text = WriteText(module, options);
  EXPECT_THAT(text, HasSubstr("(%0: tensor<4x6xf32> loc(#loc0))"));
  EXPECT_THAT(text, HasSubstr("%2 = \"stablehlo.add\"(%0, %1) : (tensor<4x6xf32>, "
                              "tensor<4x6xf32>) -> tensor<4x6xf32> loc(#loc1)\n"));
  EXPECT_THAT(text, HasSubstr("-> () loc(unknown)\n"));
  EXPECT_THAT(text, EndsWith("} loc(unknown)\n#loc0 = loc(\"x\")\n"
                             "#loc1 = loc(\"jit(f)/add\"(\"train.py\":7:3))\n"));
}

TEST(TextWriter, ConstantsKeepEveryBit) {
  Module module;
  Function* main = module.AddFunction("main");
  Builder b(&module, main->body);
  const Type f32 = Type::Tensor(ElementType::kF32, {2});
  b.Splat(f32, 1e-5);
  b.Splat(f32, std::numeric_limits<double>::infinity());
  b.Splat(Type::Tensor(ElementType::kBF16, {2}), 1);
  b.Splat(Type::Tensor(ElementType::kC64, {2}), 0.5);
  b.IntVector(ElementType::kI1, {1, 0, 1});
  b.IntVector(ElementType::kUI8, {255});
  b.IntVector(ElementType::kI16, std::vector<int64_t>(17, 258));
  b.IntVector(ElementType::kI32, {});
  const std::string text = WriteText(module);
  for (const char* expected :
       {"dense<1.0e-05> : tensor<2xf32>", "dense<0x7F800000> : tensor<2xf32>",
        "dense<0x3F80> : tensor<2xbf16>", "dense<(0.5,0.0)> : tensor<2xcomplex<f32>>",
        "dense<[true, false, true]>", "dense<[255]> : tensor<1xui8>", "dense<\"0x02010201",
        "dense<> : tensor<0xi32>"}) {
    EXPECT_THAT(text, HasSubstr(expected));
  }
}

TEST(TextWriter, QuotesStrangeNames) {
  Module module;
  module.AddFunction("a b");
  Set(module.attributes, "x-y", std::string("tab\t\"quote\""));
  Set(module.attributes, "unit", Unit{});
  const std::string text = WriteText(module);
  EXPECT_THAT(text, HasSubstr("@\"a b\"("));
  EXPECT_THAT(text, HasSubstr("{unit, \"x-y\" = \"tab\\09\\22quote\\22\"}"));
}

TEST(Cloner, CopiesNestedRegions) {
  const auto module = Sample();
  Module copy;
  copy.name = module->name;
  Cloner cloner(&copy);
  cloner.CloneFunction(*module->main(), "main");
  EXPECT_TRUE(Verify(copy).ok()) << Verify(copy);
  EXPECT_EQ(WriteText(copy), WriteText(*module));
}

TEST(Cloner, InlinesABody) {
  const auto module = Sample();
  Module target;
  Function* main = target.AddFunction("main");
  Value* x = target.AddArgument(main->body, kMatrix);
  Cloner cloner(&target);
  cloner.Bind(module->main()->arguments()[0], x);
  const std::vector<Value*> results = cloner.CloneBody(*module->main()->body, main->body);
  Builder(&target, main->body).FuncReturn(results);
  main->result_types = {results[0]->type};
  EXPECT_TRUE(Verify(target).ok()) << Verify(target);
}

TEST(Type, Spelling) {
  EXPECT_EQ(Type::Tensor(ElementType::kF32, {4, kDynamic}).ToString(), "tensor<4x?xf32>");
  EXPECT_EQ(Type::Tuple({Type::Token(), Type::Scalar(ElementType::kI1)}).ToString(),
            "tuple<!stablehlo.token, tensor<i1>>");
  EXPECT_EQ(Type::Tensor(ElementType::kF64, {1 << 30, 1 << 30, 1 << 30}).num_bytes(), INT64_MAX);
}

TEST(Attributes, StaySorted) {
  AttrDict dict;
  Set(dict, "b", int64_t{1});
  Set(dict, "a", int64_t{2});
  Set(dict, "b", int64_t{3});
  ASSERT_EQ(dict.size(), 2u);
  EXPECT_EQ(dict[0].first, "a");
  EXPECT_EQ(*Find(dict, "b")->get_if<int64_t>(), 3);
  Erase(dict, "a");
  EXPECT_EQ(Find(dict, "a"), nullptr);
}

TEST(Constants, SplatsMaterialize) {
  const Type type = Type::Tensor(ElementType::kI16, {3});
  const Constant splat = Constant::Copy(type, std::string("\x02\x00", 2), true);
  EXPECT_EQ(splat.Materialize(), std::string("\x02\x00\x02\x00\x02\x00", 6));
  EXPECT_EQ(splat.Ints(), (std::vector<int64_t>{2, 2, 2}));
}

}  // namespace
}  // namespace shardway::ir
