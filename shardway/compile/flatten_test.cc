#include "shardway/compile/flatten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/ir/builder.h"

namespace shardway::compile {
namespace {

using ::testing::HasSubstr;

const ir::Type kVector = ir::Type::Tensor(ElementType::kF32, std::vector<int64_t>{8});

struct Source {
  Source() : main(module.AddFunction("main")), b(&module, main->body) {
    module.meshes.emplace_back("mesh", ir::SdyMesh{.axes = {{"x", 4}}, .device_ids = {}});
    x = module.AddArgument(main->body, kVector);
    main->arg_attrs.resize(1);
    main->result_attrs.resize(1);
    main->result_types = {kVector};
    request.num_partitions = 4;
  }
  static ir::SdySharding Over(const char* axis) {
    ir::SdySharding sharding;
    sharding.mesh_name = "mesh";
    sharding.dims = {{.axes = {{axis, {}}}, .closed = true, .priority = {}}};
    return sharding;
  }
  ir::Op* Call(const char* name, ir::Builder& in, ir::Value* v) {
    ir::AttrDict attributes;
    ir::Set(attributes, "callee", ir::FlatSymbolRef{name});
    return in.Create(ir::OpKind::kCall, {&v, 1}, {&kVector, 1}, std::move(attributes));
  }
  // name(v) = callee(v), or tanh(v).
  void Function(const char* name, const char* callee) {
    ir::Function* f = module.AddFunction(name);
    ir::Value* v = module.AddArgument(f->body, kVector);
    ir::Builder in(&module, f->body);
    ir::Value* r =
        callee != nullptr ? Call(callee, in, v)->result() : in.Unary(ir::OpKind::kTanh, v);
    in.FuncReturn({&r, 1});
  }
  void Return(ir::Value* v) { b.FuncReturn({&v, 1}); }

  ir::Module module;
  ir::Function* main;
  ir::Builder b;
  ir::Value* x;
  Request request;
};

int Count(const spmd::Program& program, ir::OpKind kind) {
  int n = 0;
  for (const ir::Op* op : program.module->main()->body->ops) n += op->kind == kind;
  return n;
}

TEST(Flatten, InlinesEveryCall) {
  Source s;
  s.Function("inner", nullptr);
  s.Function("outer", "inner");
  s.Return(s.Call("outer", s.b, s.Call("inner", s.b, s.x)->result())->result());
  auto program = Flatten(s.module, s.request);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(Count(*program, ir::OpKind::kTanh), 2);
  EXPECT_EQ(Count(*program, ir::OpKind::kCall), 0);
}

TEST(Flatten, WhatIsCalledHasTheCallersLine) {
  Source s;
  s.Function("library", nullptr);  // its operators say no file
  s.b.set_location(s.module.AddLocation({"jit(step)/roll", "train.py", 7, 1}));
  s.Return(s.Call("library", s.b, s.x)->result());
  auto program = Flatten(s.module, s.request);
  ASSERT_TRUE(program.ok()) << program.status();
  for (const ir::Op* op : program->module->main()->body->ops) {
    if (op->kind == ir::OpKind::kTanh) {
      EXPECT_EQ(op->location->file, "train.py");
      EXPECT_EQ(op->location->line, 7);
    }
  }
}

TEST(Flatten, RecursionIsAnError) {
  Source s;
  s.Function("loop", "loop");
  s.Return(s.Call("loop", s.b, s.x)->result());
  EXPECT_THAT(std::string(Flatten(s.module, s.request).status().message()),
              HasSubstr("@loop calls itself"));
}

TEST(Flatten, ExplodingCallsAreAnError) {
  Source s;
  s.Function("f0", nullptr);
  std::vector<std::string> names = {"f0"};
  for (int i = 1; i < 40; ++i) {
    names.push_back("f" + std::to_string(i));
    ir::Function* f = s.module.AddFunction(names.back());
    ir::Value* v = s.module.AddArgument(f->body, kVector);
    ir::Builder in(&s.module, f->body);
    ir::Value* r =
        s.Call(names[i - 1].c_str(), in, s.Call(names[i - 1].c_str(), in, v)->result())->result();
    in.FuncReturn({&r, 1});
  }
  s.Return(s.Call("f39", s.b, s.x)->result());
  EXPECT_EQ(Flatten(s.module, s.request).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Flatten, ReadsAnnotationsOfBothNotations) {
  for (bool shardy : {true, false}) {
    Source s;
    ir::Set(s.main->arg_attrs[0], shardy ? "sdy.sharding" : "mhlo.sharding",
            shardy ? ir::Attribute(Source::Over("x"))
                   : ir::Attribute(std::string("{devices=[4]<=[4]}")));
    s.Return(s.x);
    auto program = Flatten(s.module, s.request);
    ASSERT_TRUE(program.ok()) << program.status();
    const ir::Value* arg = program->module->main()->arguments()[0];
    EXPECT_EQ(program->annotations[arg->id].sharding.dims[0], (sharding::AxisList{0, 1}));
  }
}

TEST(Flatten, UnknownAxesNameTheArgument) {
  Source s;
  ir::Set(s.main->arg_attrs[0], "sdy.sharding", Source::Over("z"));
  s.Return(s.x);
  const std::string fault(Flatten(s.module, s.request).status().message());
  EXPECT_THAT(fault, HasSubstr("argument 0"));
  EXPECT_THAT(fault, HasSubstr("\"z\""));
}

TEST(Flatten, SumsAloneMayStayUnreduced) {
  Source s;
  ir::SdySharding sharding = Source::Over("x");
  sharding.dims[0].axes.clear();
  sharding.unreduced = {{"x", {}}};
  ir::AttrDict attributes;
  ir::Set(attributes, "sharding", sharding);
  s.Return(s.b.Create(ir::OpKind::kSdyShardingConstraint, {&s.x, 1}, {&kVector, 1}, attributes)
               ->result());
  ASSERT_TRUE(Flatten(s.module, s.request).ok()) << Flatten(s.module, s.request).status();
  ir::Set(s.main->arg_attrs[0], "sdy.sharding", sharding);
  ir::Set(s.main->result_attrs[0], "sdy.sharding", sharding);
  const auto program = Flatten(s.module, s.request);
  ASSERT_TRUE(program.ok()) << program.status();
  const ir::Region& body = *program->module->main()->body;
  EXPECT_EQ(program->unreduced_of(body.arguments[0]), program->mesh.all());
  EXPECT_EQ(program->unreduced_of(body.terminator()->operand(0)), program->mesh.all());
  sharding.reduction = 1;  // a maximum
  ir::Set(s.main->result_attrs[0], "sdy.sharding", sharding);
  const absl::Status status = Flatten(s.module, s.request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr(
          "result 0 (tensor<8xf32>): it is unreduced over the axis \"x\" by another reduction"));
}

TEST(Flatten, ManualRegionsBecomeConversions) {
  Source s;
  const ir::Type local = ir::Type::Tensor(ElementType::kF32, std::vector<int64_t>{2});
  ir::AttrDict attributes;
  ir::Set(attributes, "in_shardings", ir::SdyPerValue{{Source::Over("x")}});
  ir::Set(attributes, "out_shardings", ir::SdyPerValue{{Source::Over("x")}});
  ir::Set(attributes, "manual_axes", ir::SdyManualAxes{{"x"}});
  ir::Op* op = s.b.Create(ir::OpKind::kSdyManualComputation, {&s.x, 1}, {&kVector, 1},
                          std::move(attributes));
  ir::Region* body = s.module.AddRegion(op);
  ir::Value* v = s.module.AddArgument(body, local);
  ir::Builder in(&s.module, body);
  ir::Value* r = in.Unary(ir::OpKind::kTanh, v);
  in.Create(ir::OpKind::kSdyReturn, {&r, 1}, {});
  s.Return(op->result());
  auto program = Flatten(s.module, s.request);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->conversions.size(), 2u);
  for (const ir::Op* flat : program->module->main()->body->ops) {
    if (flat->kind == ir::OpKind::kTanh) {
      EXPECT_EQ(program->manual_of(flat->result()), program->mesh.all());
    }
  }
}

TEST(Flatten, OneDeviceHasNoPartsOfAManualRegion) {
  Source s;
  const ir::Type local = ir::Type::Tensor(ElementType::kF32, std::vector<int64_t>{2});
  ir::AttrDict attributes;
  ir::Set(attributes, "call_target_name", std::string(spmd::kFullToShard));
  ir::Set(attributes, "mhlo.sharding", std::string("{manual}"));
  ir::Value* part =
      s.b.Create(ir::OpKind::kCustomCall, {&s.x, 1}, {&local, 1}, std::move(attributes))->result();
  s.main->result_types = {local};
  s.Return(part);
  s.request.num_partitions = 1;
  EXPECT_THAT(std::string(Flatten(s.module, s.request).status().message()),
              HasSubstr("tensor<2xf32> is no part of tensor<8xf32>"));
}

}  // namespace
}  // namespace shardway::compile
