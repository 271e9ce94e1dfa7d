// Which values of the flat program an annotation reaches, wherever the user has written it.
#include "shardway/compile/annotations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "shardway/compile/flatten.h"
#include "shardway/ir/builder.h"
#include "shardway/ir/verify.h"

namespace shardway::compile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const ir::Type kVector = ir::Type::Tensor(ElementType::kF32, std::vector<int64_t>{8});

ir::SdySharding Over(const char* axis) {
  ir::SdySharding sharding;
  sharding.mesh_name = "mesh";
  sharding.dims = {{.axes = {{axis, {}}}, .closed = true, .priority = {}}};
  return sharding;
}

ir::Attribute PerValue(const char* axis) { return ir::SdyPerValue{{Over(axis)}}; }

ir::AttrDict One(const char* name, ir::Attribute attribute) {
  ir::AttrDict attributes;
  ir::Set(attributes, name, std::move(attribute));
  return attributes;
}

// main(x: f32[8]) over x=2,y=2: what `write` makes of x is returned.
class Source {
 public:
  explicit Source(const std::function<ir::Value*(Source&)>& write)
      : main_(module_.AddFunction("main")), b_(&module_, main_->body) {
    module_.meshes.emplace_back("mesh", ir::SdyMesh{{{"x", 2}, {"y", 2}}, {}});
    x_ = module_.AddArgument(main_->body, kVector);
    main_->result_types = {kVector};
    b_.set_location(module_.AddLocation({"jit(step)/foo", "train.py", 12, 3}));
    ir::Value* result = write(*this);
    b_.FuncReturn({&result, 1});
  }

  ir::Module& module() { return module_; }
  ir::Builder& b() { return b_; }
  ir::Value* x() { return x_; }

  ir::Op* Create(ir::OpKind kind, ir::AttrDict attributes) {
    return b_.Create(kind, {&x_, 1}, {&kVector, 1}, std::move(attributes));
  }
  // A region of `op` that takes a vector and returns its tanh, or itself.
  void Body(ir::Op* op, ir::OpKind end, bool argument, bool tanh) {
    ir::Builder in(&module_, module_.AddRegion(op));
    ir::Value* v = argument ? module_.AddArgument(in.region(), kVector) : x_;
    if (tanh) v = in.Unary(ir::OpKind::kTanh, v);
    in.Create(end, {&v, 1}, {});
  }
  ir::Function* Tanh(const char* name) {
    ir::Function* f = module_.AddFunction(name);
    ir::Value* v = module_.AddArgument(f->body, kVector);
    ir::Builder in(&module_, f->body);
    v = in.Unary(ir::OpKind::kTanh, v);
    in.FuncReturn({&v, 1});
    f->result_types = {kVector};
    return f;
  }

  absl::StatusOr<spmd::Program> Flat() {
    if (absl::Status s = ir::Verify(module_); !s.ok()) return s;
    Request request;
    request.num_partitions = 4;
    request.allow_propagation_to_parameters = {true};
    request.allow_propagation_to_results = {true};
    return Flatten(module_, request);
  }
  // "stablehlo.tanh x": the annotated values, in order; all that is open left out.
  std::vector<std::string> Annotated() {
    auto program = Flat();
    EXPECT_TRUE(program.ok()) << program.status();
    std::vector<std::string> found;
    if (program.ok()) Walk(*program, *program->module->main()->body, found);
    return found;
  }
  std::string Fault() {
    const absl::Status status = Flat().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

 private:
  static void Walk(const spmd::Program& program, const ir::Region& region,
                   std::vector<std::string>& found) {
    const auto add = [&](const ir::Value* v, std::string what) {
      const auto at = program.annotations.find(v->id);
      if (at == program.annotations.end() || at->second.open != 0) return;
      found.push_back(what + " " + program.mesh.ToString(at->second.sharding.dims[0]));
    };
    for (const ir::Value* v : region.arguments) add(v, "argument");
    for (const ir::Op* op : region.ops) {
      for (const ir::Region* body : op->regions) Walk(program, *body, found);
      for (const ir::Value* v : op->results) add(v, std::string(ir::OpKindName(op->kind)));
    }
  }

  ir::Module module_;
  ir::Function* main_;
  ir::Builder b_;
  ir::Value* x_;
};

TEST(Annotations, OnOperatorsInBothNotations) {
  const std::pair<const char*, ir::Attribute> notations[] = {
      {"sdy.sharding", PerValue("x")},
      {"mhlo.sharding", std::string("{devices=[2,2]<=[4] last_tile_dim_replicate}")},
      {"mhlo.sharding", std::string("{{devices=[2,2]<=[4] last_tile_dim_replicate}}")},
  };
  for (const auto& notation : notations) {
    Source s([&](Source& in) {
      return in.Create(ir::OpKind::kTanh, One(notation.first, notation.second))->result();
    });
    EXPECT_THAT(s.Annotated(), ElementsAre("stablehlo.tanh x"));
  }
}

TEST(Annotations, EmptyTextIsNoSharding) {
  Source s([&](Source& in) {
    return in.Create(ir::OpKind::kTanh, One("mhlo.sharding", std::string()))->result();
  });
  EXPECT_THAT(s.Fault(), HasSubstr("sharding"));
}

TEST(Annotations, OneHloShardingIsThatOfEveryResult) {
  const auto of = [](const char* text) {
    return Source([&](Source& in) {
      const ir::Type types[] = {kVector, kVector};
      ir::Value* operands[] = {in.x(), in.x()};
      return in.b()
          .Create(ir::OpKind::kOptimizationBarrier, operands, types,
                  One("mhlo.sharding", std::string(text)))
          ->result();
    });
  };
  Source both = of("{devices=[4]<=[4]}");
  EXPECT_THAT(both.Annotated(), ElementsAre("stablehlo.optimization_barrier x,y",
                                            "stablehlo.optimization_barrier x,y"));
  Source second = of("{{replicated}, {devices=[2,2]<=[4] last_tile_dim_replicate}}");
  EXPECT_THAT(second.Annotated(),
              ElementsAre("stablehlo.optimization_barrier ", "stablehlo.optimization_barrier x"));
  Source three = of("{{replicated}, {replicated}, {replicated}}");
  EXPECT_THAT(three.Fault(), HasSubstr("3 shardings for 2 results"));
}

TEST(Annotations, OnCallsAndWhatTheyCall) {
  Source s([](Source& in) {
    ir::Function* f = in.Tanh("f");
    f->arg_attrs = {One("sdy.sharding", Over("x"))};
    f->result_attrs = {One("mhlo.sharding", std::string("{replicated}"))};
    ir::AttrDict attributes = One("callee", ir::FlatSymbolRef{"f"});
    ir::Set(attributes, "sdy.sharding", PerValue("y"));
    return in.Create(ir::OpKind::kCall, std::move(attributes))->result();
  });
  EXPECT_THAT(s.Annotated(), ElementsAre("sdy.sharding_constraint x", "sdy.sharding_constraint ",
                                         "sdy.sharding_constraint y"));
}

TEST(Annotations, OnNamedComputations) {
  Source s([](Source& in) {
    ir::AttrDict attributes = One("name", std::string("foo"));
    ir::Set(attributes, "in_shardings", PerValue("x"));
    ir::Set(attributes, "out_shardings", PerValue("y"));
    ir::Op* op = in.Create(ir::OpKind::kSdyNamedComputation, std::move(attributes));
    in.Body(op, ir::OpKind::kSdyReturn, /*argument=*/true, /*tanh=*/true);
    return op->result();
  });
  EXPECT_THAT(s.Annotated(), ElementsAre("sdy.sharding_constraint x", "sdy.sharding_constraint y"));
}

TEST(Annotations, OnDataFlowEdges) {
  Source s([](Source& in) {
    return in.Create(ir::OpKind::kSdyDataFlowEdge, One("sharding", Over("y")))->result();
  });
  EXPECT_THAT(s.Annotated(), ElementsAre("sdy.sharding_constraint y"));
  Source none([](Source& in) { return in.Create(ir::OpKind::kSdyDataFlowEdge, {})->result(); });
  EXPECT_THAT(none.Annotated(), IsEmpty());
}

TEST(Annotations, OnALoopAreThoseOfItsState) {
  Source s([](Source& in) {
    ir::Op* loop = in.Create(ir::OpKind::kWhile, One("sdy.sharding", PerValue("x")));
    ir::Builder condition(&in.module(), in.module().AddRegion(loop));
    in.module().AddArgument(condition.region(), kVector);
    ir::Value* done = condition.Splat(ir::Type::Scalar(ElementType::kI1), 0);
    condition.Return({&done, 1});
    in.Body(loop, ir::OpKind::kReturn, /*argument=*/true, /*tanh=*/true);
    return loop->result();
  });
  EXPECT_THAT(s.Annotated(), ElementsAre("argument x", "argument x", "stablehlo.while x"));
}

TEST(Annotations, OnBranches) {
  for (const bool shardy : {true, false}) {
    Source s([&](Source& in) {
      ir::Value* index = in.b().Splat(ir::Type::Scalar(ElementType::kI32), 0);
      ir::Op* op = in.b().Create(
          ir::OpKind::kCase, {&index, 1}, {&kVector, 1},
          shardy
              ? One("sdy.sharding", PerValue("x"))
              : One("mhlo.sharding", std::string("{devices=[2,2]<=[4] last_tile_dim_replicate}")));
      in.Body(op, ir::OpKind::kReturn, /*argument=*/false, /*tanh=*/true);
      in.Body(op, ir::OpKind::kReturn, /*argument=*/false, /*tanh=*/false);
      return op->result();
    });
    EXPECT_THAT(s.Annotated(), ElementsAre("stablehlo.case x"));
  }
}

TEST(Annotations, OnShardysConstants) {
  Source s([](Source& in) {
    ir::AttrDict attributes = in.b().Splat(kVector, 1)->def->attributes;
    ir::Set(attributes, "sdy.sharding", PerValue("x"));
    return in.b()
        .Create(ir::OpKind::kSdyConstant, {}, {&kVector, 1}, std::move(attributes))
        ->result();
  });
  EXPECT_THAT(s.Annotated(), ElementsAre("stablehlo.constant x"));
}

TEST(Annotations, OfTheBoundaryDivide) {
  const auto over = [](bool argument, std::vector<ir::SdyAxisRef> axes, bool closed) {
    Source s([](Source& in) { return in.x(); });
    s.module().meshes = {{"mesh", ir::SdyMesh{{{"x", 3}, {"y", 2}}, {}}}};
    ir::SdySharding sharding = Over("x");
    sharding.dims[0] = {std::move(axes), closed, {}};
    ir::Function& main = *s.module().main();
    auto& attributes = argument ? main.arg_attrs : main.result_attrs;
    attributes = {One("sdy.sharding", sharding)};
    Request request;
    request.num_partitions = 6;
    return std::string(Flatten(s.module(), request).status().message());
  };
  const char* const fault = "dimension 0 of size 8 is split over x of size 3";
  for (const bool closed : {true, false}) {
    EXPECT_THAT(over(true, {{"x", {}}}, closed),
                HasSubstr(std::string("argument 0 (tensor<8xf32>): ") + fault));
    EXPECT_THAT(over(false, {{"x", {}}}, closed),
                HasSubstr(std::string("result 0 (tensor<8xf32>): ") + fault));
  }
  EXPECT_THAT(over(true, {{"y", {}}, {"x", {}}}, true), HasSubstr("over y,x of size 6"));
  EXPECT_EQ(over(true, {{"y", {}}}, true), "");
}

// A function's own annotations may be right for one caller and not for another.
TEST(Annotations, OverManualAxesAreErrors) {
  const auto inside = [](bool of_callee) {
    return Source([&](Source& in) {
      ir::AttrDict attributes = One("in_shardings", PerValue("x"));
      ir::Set(attributes, "out_shardings", PerValue("x"));
      ir::Set(attributes, "manual_axes", ir::SdyManualAxes{{"x"}});
      ir::Op* op = in.Create(ir::OpKind::kSdyManualComputation, std::move(attributes));
      const ir::Type local = ir::Type::Tensor(ElementType::kF32, std::vector<int64_t>{4});
      ir::Builder body(&in.module(), in.module().AddRegion(op));
      body.set_location(in.b().location());
      ir::Value* v = in.module().AddArgument(body.region(), local);
      if (of_callee) {
        ir::Function* f = in.module().AddFunction("f");
        f->result_types = {local};
        f->arg_attrs = {One("sdy.sharding", Over("x"))};
        ir::Value* same = in.module().AddArgument(f->body, local);
        ir::Builder(&in.module(), f->body).FuncReturn({&same, 1});
        v = body.Create(ir::OpKind::kCall, {&v, 1}, {&local, 1},
                        One("callee", ir::FlatSymbolRef{"f"}))
                ->result();
      } else {
        v = body.Create(ir::OpKind::kTanh, {&v, 1}, {&local, 1}, One("sdy.sharding", PerValue("x")))
                ->result();
      }
      body.Create(ir::OpKind::kSdyReturn, {&v, 1}, {});
      return op->result();
    });
  };
  Source by_operator = inside(false);
  EXPECT_THAT(by_operator.Fault(),
              HasSubstr("the sharding of stablehlo.tanh of a tensor<4xf32> at train.py:12:3 "
                        "(jit(step)/foo): it is split over x, over which the manual region"));
  Source by_callee = inside(true);
  EXPECT_THAT(by_callee.Fault(), HasSubstr("argument 0 of @f, called at train.py:12:3"));
}

}  // namespace
}  // namespace shardway::compile
