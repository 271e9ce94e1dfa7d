// Programs whose annotations make no sense, at random: an error each time, or a program, never a
// crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "shardway/compile/flatten.h"
#include "shardway/ir/builder.h"
#include "shardway/ir/verify.h"
#include "shardway/spmd/partitioner.h"

namespace shardway::compile {
namespace {

using ::testing::HasSubstr;

const ir::Type kMatrix = ir::Type::Tensor(ElementType::kF32, std::vector<int64_t>{8, 6});
// Arguments and results must divide by what splits them.
const ir::Type kEven = ir::Type::Tensor(ElementType::kF32, std::vector<int64_t>{8, 8});

class HostileProgram {
 public:
  // A mild one makes sense but is unusual; it reaches the passes behind the first check.
  HostileProgram(unsigned seed, bool mild) : random_(seed), mild_(mild), b_(&module_, nullptr) {}

  void Build() {
    ir::Function* main = module_.AddFunction("main");
    main->is_public = true;
    b_.set_region(main->body);
    module_.meshes.emplace_back("mesh", ir::SdyMesh{{{"x", 2}, {"y", 4}}, {}});
    module_.meshes.emplace_back("other", RandomMesh());
    for (int i = 0; i < 2; ++i) {
      ir::Value* whole = module_.AddArgument(main->body, kEven);
      values_.push_back(b_.Slice(whole, {0, 0}, kMatrix.dims));
      main->arg_attrs.emplace_back();
      Annotate(main->arg_attrs.back(), "sdy.sharding");
    }
    for (int i = 0; i < 6; ++i) AddOp();
    main->result_types = {kEven};
    main->result_attrs.resize(1);
    Annotate(main->result_attrs[0], "sdy.sharding");
    ir::Value* zero = b_.Splat(ir::Type::Scalar(ElementType::kF32), 0);
    ir::Value* result = b_.Pad(values_.back(), zero, {0, 0}, {0, 2});
    b_.FuncReturn({&result, 1});
  }

  const ir::Module& module() const { return module_; }

 private:
  int Draw(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  int64_t Size() { return std::vector<int64_t>{1, 2, 3, 4, 8, 0, -1, int64_t{1} << 62}[Draw(8)]; }

  ir::SdyMesh RandomMesh() {
    ir::SdyMesh mesh;
    if (mild_ || Draw(2) == 0) {
      mesh.axes = {{"a", 4}, {"x", 2}};
      if (Draw(2) == 0) mesh.device_ids = {3, 1, 0, 2, 7, 6, 5, 4};
      return mesh;
    }
    for (int i = Draw(4); i > 0; --i) mesh.axes.push_back({Draw(2) == 0 ? "x" : "a", Size()});
    for (int i = Draw(3) == 0 ? Draw(9) : 0; i > 0; --i) mesh.device_ids.push_back(Draw(9) - 1);
    return mesh;
  }

  ir::SdyAxisRef RandomAxis() {
    ir::SdyAxisRef axis;
    axis.name =
        std::vector<std::string>{"x", "y", "a", "none", ""}[Draw(20) < 16 ? Draw(2) : Draw(5)];
    if (Draw(4) == 0) axis.sub_axis = {Size(), Size()};
    return axis;
  }

  ir::SdySharding MildSharding() {
    ir::SdySharding sharding;
    const bool other = Draw(4) == 0;
    sharding.mesh_name = other ? "other" : "mesh";
    sharding.dims.resize(2);
    for (const char* axis : {"x", other ? "a" : "y"}) {
      ir::SdyAxisRef ref{axis, {}};
      if (axis[0] != 'x' && Draw(3) == 0) ref.sub_axis = {Draw(2) + 1, 2};
      std::vector<ir::SdyAxisRef> nowhere;
      std::vector<ir::SdyAxisRef>* places[] = {&sharding.dims[0].axes, &sharding.dims[1].axes,
                                               &sharding.replicated, &sharding.unreduced, &nowhere};
      places[Draw(5)]->push_back(std::move(ref));
    }
    for (auto& dim : sharding.dims) {
      dim.closed = Draw(2) == 0;
      if (Draw(4) == 0) dim.priority = Draw(4);
    }
    return sharding;
  }

  ir::SdySharding RandomSharding() {
    if (mild_) return MildSharding();
    ir::SdySharding sharding;
    if (Draw(8) == 0) {
      sharding.mesh = RandomMesh();
    } else {
      sharding.mesh_name =
          std::vector<std::string>{"mesh", "other", "none"}[Draw(8) < 6 ? 0 : Draw(3)];
    }
    for (int d = Draw(8) == 0 ? Draw(5) : 2; d > 0; --d) {
      ir::SdyDimSharding& dim = sharding.dims.emplace_back();
      for (int i = Draw(3) / 2 + Draw(8) / 7; i > 0; --i) dim.axes.push_back(RandomAxis());
      dim.closed = Draw(2) == 0;
      if (Draw(4) == 0) dim.priority = Draw(4) == 0 ? Size() : Draw(3);
    }
    if (Draw(8) == 0) sharding.replicated.push_back(RandomAxis());
    if (Draw(16) == 0) sharding.unreduced.push_back(RandomAxis());
    return sharding;
  }

  std::string RandomText() {
    const char* texts[] = {"{replicated}",
                           "{devices=[2,4]<=[8]}",
                           "{devices=[4,2]<=[2,4]T(1,0)}",
                           "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
                           "{devices=[2,4]7,6,5,4,3,2,1,0}",
                           "{unknown}",
                           "{unreduced}",
                           "{devices=[2,1,4]<=[8] last_tile_dims={unreduced}}",
                           "{manual}",
                           "{maximal device=7}",
                           "{maximal device=99}",
                           "{devices=[2,2,2]<=[8] last_tile_dims={manual}}",
                           "{devices=[3,2]<=[6]}",
                           "{devices=[8]<=[8]}",
                           "{{replicated}, {replicated}}"};
    constexpr int kMild = 8;
    std::string text = texts[Draw(mild_ ? kMild : std::size(texts))];
    if (!mild_ && Draw(4) == 0) text[Draw(static_cast<int>(text.size()))] = "{}[]<=,7"[Draw(8)];
    return text;
  }

  void Annotate(ir::AttrDict& attributes, const char* name) {
    if (Draw(3) == 0) return;
    if (Draw(4) == 0) {
      ir::Set(attributes, "mhlo.sharding", RandomText());
    } else {
      ir::Set(attributes, name, RandomSharding());
    }
  }

  ir::Value* Pick() { return values_[Draw(static_cast<int>(values_.size()))]; }

  void AddOp() {
    ir::Value* v = Pick();
    ir::AttrDict attributes;
    switch (Draw(9)) {
      case 0: {
        values_.push_back(b_.Binary(ir::OpKind::kAdd, v, Pick()));
        AnnotateResult(values_.back()->def);
        return;
      }
      case 1:
        ir::Set(attributes, "group_id", int64_t{Draw(2)});
        b_.Create(ir::OpKind::kSdyShardingGroup, {&v, 1}, {}, std::move(attributes));
        return;
      case 2:
        ir::Set(attributes, "allowed_direction",
                ir::TypedInt{ElementType::kI32, mild_ ? Draw(4) : Size()});
        return Push(b_.Create(ir::OpKind::kSdyPropagationBarrier, {&v, 1}, {&kMatrix, 1},
                              std::move(attributes)));
      case 3:
        ir::Set(attributes, "call_target_name", std::string("Sharding"));
        ir::Set(attributes, "mhlo.sharding", RandomText());
        ir::Set(attributes, "backend_config", std::string("unspecified_dims=[0,99,-3,x"));
        return Push(
            b_.Create(ir::OpKind::kCustomCall, {&v, 1}, {&kMatrix, 1}, std::move(attributes)));
      case 4:
        if (mild_) break;
        return Push(Manual(v));
      case 5:
        return Push(Named(v));
      case 6:
        return Push(Loop(v));
      case 7:
        return Push(Call(v));
      default:
        break;
    }
    ir::Set(attributes, "sharding", RandomSharding());
    Push(b_.Create(ir::OpKind::kSdyShardingConstraint, {&v, 1}, {&kMatrix, 1},
                   std::move(attributes)));
  }
  void Push(ir::Op* op) { values_.push_back(op->result()); }

  void AnnotateResult(ir::Op* op) {
    if (Draw(2) == 0) return;
    if (Draw(4) == 0) {
      ir::Set(op->attributes, "mhlo.sharding", RandomText());
    } else {
      ir::Set(op->attributes, "sdy.sharding", ir::SdyPerValue{{RandomSharding()}});
    }
  }

  void Tanh(ir::Region* region, ir::OpKind end) {
    ir::Builder in(&module_, region);
    ir::Value* v = in.Unary(ir::OpKind::kTanh, module_.AddArgument(region, kMatrix));
    in.Create(end, {&v, 1}, {});
  }

  ir::Op* Named(ir::Value* v) {
    ir::AttrDict attributes;
    ir::Set(attributes, "name", std::string("named"));
    for (const char* list : {"in_shardings", "out_shardings"}) {
      if (Draw(2) == 0) ir::Set(attributes, list, ir::SdyPerValue{{RandomSharding()}});
    }
    ir::Op* op =
        b_.Create(ir::OpKind::kSdyNamedComputation, {&v, 1}, {&kMatrix, 1}, std::move(attributes));
    Tanh(module_.AddRegion(op), ir::OpKind::kSdyReturn);
    return op;
  }

  ir::Op* Loop(ir::Value* v) {
    ir::Op* op = b_.Create(ir::OpKind::kWhile, {&v, 1}, {&kMatrix, 1});
    AnnotateResult(op);
    ir::Builder condition(&module_, module_.AddRegion(op));
    module_.AddArgument(condition.region(), kMatrix);
    ir::Value* done = condition.Splat(ir::Type::Scalar(ElementType::kI1), 0);
    condition.Return({&done, 1});
    Tanh(module_.AddRegion(op), ir::OpKind::kReturn);
    return op;
  }

  ir::Op* Call(ir::Value* v) {
    ir::Function* f = module_.AddFunction("f" + std::to_string(module_.functions().size()));
    f->result_types = {kMatrix};
    f->arg_attrs.resize(1);
    f->result_attrs.resize(1);
    Annotate(f->arg_attrs[0], "sdy.sharding");
    Annotate(f->result_attrs[0], "sdy.sharding");
    Tanh(f->body, ir::OpKind::kFuncReturn);
    ir::AttrDict attributes;
    ir::Set(attributes, "callee", ir::FlatSymbolRef{f->name});
    ir::Op* op = b_.Create(ir::OpKind::kCall, {&v, 1}, {&kMatrix, 1}, std::move(attributes));
    AnnotateResult(op);
    return op;
  }

  ir::Op* Manual(ir::Value* v) {
    ir::AttrDict attributes;
    ir::Set(attributes, "in_shardings", ir::SdyPerValue{{RandomSharding()}});
    ir::Set(attributes, "out_shardings", ir::SdyPerValue{{RandomSharding()}});
    ir::Set(attributes, "manual_axes", ir::SdyManualAxes{{Draw(2) == 0 ? "x" : "none"}});
    ir::Op* op =
        b_.Create(ir::OpKind::kSdyManualComputation, {&v, 1}, {&kMatrix, 1}, std::move(attributes));
    ir::Type local = kMatrix;
    local.dims[0] = std::vector<int64_t>{8, 4, 2, 3}[Draw(4)];
    ir::Builder in(&module_, module_.AddRegion(op));
    ir::Value* arg = module_.AddArgument(in.region(), local);
    ir::Value* r = in.Unary(ir::OpKind::kTanh, arg);
    in.Create(ir::OpKind::kSdyReturn, {&r, 1}, {});
    return op;
  }

  std::mt19937 random_;
  bool mild_;
  ir::Module module_;
  ir::Builder b_;
  std::vector<ir::Value*> values_;
};

absl::Status CompileModule(const ir::Module& module) {
  if (absl::Status s = ir::Verify(module); !s.ok()) return s;
  Request request;
  request.num_partitions = 8;
  request.allow_propagation_to_results = {true};
  auto program = Flatten(module, request);
  if (!program.ok()) return program.status();
  const spmd::Rules rules(*program);
  const auto shardings = spmd::Propagate(*program, rules);
  for (const spmd::Backend backend : {spmd::Backend::kFfi, spmd::Backend::kNative}) {
    auto device = spmd::Partition(*program, rules, shardings, {backend, true});
    if (!device.ok()) return device.status();
    if (absl::Status s = ir::Verify(*device->module); !s.ok()) {
      return absl::InternalError(std::string(s.message()));
    }
  }
  return absl::OkStatus();
}

TEST(HostileShardings, NeverCrashTheCompiler) {
  const unsigned seed = std::random_device()();
  int accepted = 0;
  for (unsigned i = 0; i < 3000; ++i) {
    HostileProgram program(seed + i, /*mild=*/i % 2 == 0);
    program.Build();
    const absl::Status status = CompileModule(program.module());
    accepted += status.ok();
    EXPECT_NE(status.code(), absl::StatusCode::kInternal) << status << " seed " << seed + i;
  }
  EXPECT_GT(accepted, 500) << "too hostile for what comes after the first check; seed " << seed;
}

// ---- what the messages say ----

struct Annotated {
  explicit Annotated(ir::SdySharding sharding) {
    ir::Function* main = module.AddFunction("main");
    main->is_public = true;
    module.meshes.emplace_back("mesh", ir::SdyMesh{{{"x", 2}, {"y", 4}}, {}});
    ir::Value* v = module.AddArgument(main->body, kMatrix);
    main->arg_attrs.resize(1);
    main->result_attrs.resize(1);
    main->result_types = {kMatrix};
    ir::Builder b(&module, main->body);
    b.set_location(module.AddLocation({"jit(step)/mul", "train.py", 12, 3}));
    ir::AttrDict attributes;
    ir::Set(attributes, "sharding", std::move(sharding));
    ir::Op* op =
        b.Create(ir::OpKind::kSdyShardingConstraint, {&v, 1}, {&kMatrix, 1}, std::move(attributes));
    b.FuncReturn({&op->results[0], 1});
  }
  std::string Fault() {
    Request request;
    request.num_partitions = 8;
    const auto program = Flatten(module, request);
    EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(program.status().message());
  }
  ir::Module module;
};

ir::SdySharding Over(std::vector<std::vector<std::string>> dims) {
  ir::SdySharding sharding;
  sharding.mesh_name = "mesh";
  for (const auto& dim : dims) {
    ir::SdyDimSharding& split = sharding.dims.emplace_back();
    for (const std::string& axis : dim) split.axes.push_back({axis, {}});
  }
  return sharding;
}

TEST(HostileShardings, ErrorsNameValueAxisAndLine) {
  const std::pair<ir::SdySharding, const char*> cases[] = {
      {Over({{"z"}, {}}), "the axis \"z\", which its mesh lacks"},
      {Over({{"x"}, {"x"}}), "uses the axis \"x\" twice"},
      {Over({{"x"}}), "a sharding for 1 dimensions on a value of rank 2"},
  };
  for (const auto& [sharding, what] : cases) {
    const std::string fault = Annotated(sharding).Fault();
    EXPECT_THAT(fault, HasSubstr(what));
    EXPECT_THAT(fault, HasSubstr("train.py:12:3"));
    EXPECT_THAT(fault, HasSubstr("8x6xf32"));
  }
}

}  // namespace
}  // namespace shardway::compile
