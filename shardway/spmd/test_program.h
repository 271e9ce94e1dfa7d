// For tests: programs built by hand over a mesh x=2, y=4, and the text of what becomes of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shardway/ir/builder.h"
#include "shardway/ir/text_writer.h"
#include "shardway/spmd/partitioner.h"

namespace shardway::spmd {

inline const AxisList kX = {0};
inline const AxisList kY = {1, 2};

class TestProgram {
 public:
  TestProgram()
      : module(std::make_shared<ir::Module>()),
        main(module->AddFunction("main")),
        b(module.get(), main->body) {
    program.mesh = *Mesh::Make(8, std::vector<sharding::Stride>{{2, 4}, {4, 1}});
    program.mesh.Name("x", kX);
    program.mesh.Name("y", kY);
    program.module = module;
    module->name = "test";
    main->is_public = true;
  }

  // Each device on a host of its island; what crosses is as dear as `prices` say.
  void OnIslands(const std::vector<int>& islands, const topology::LinkPrices& prices = {}) {
    std::vector<topology::Place> places;
    places.reserve(islands.size());
    for (int island : islands) places.push_back({island, island});
    program.mesh.SetPlaces(places, prices);
  }

  static ir::Type F32(std::vector<int64_t> dims) {
    return ir::Type::Tensor(ElementType::kF32, dims);
  }

  ir::Value* Argument(std::vector<int64_t> dims, Sharding sharding) {
    ir::Value* v = module->AddArgument(main->body, F32(std::move(dims)));
    main->arg_attrs.emplace_back();
    Annotate(v, std::move(sharding));
    return v;
  }
  void Annotate(const ir::Value* v, Sharding sharding) {
    program.annotations[v->id] = {.sharding = std::move(sharding)};
  }
  ir::Value* Constrain(ir::Value* v, Sharding sharding) {
    ir::Value* r = b.Create(ir::OpKind::kSdyShardingConstraint, {&v, 1}, {&v->type, 1})->result();
    Annotate(r, std::move(sharding));
    return r;
  }

  // Ends the program; to be called once.
  void Return(std::vector<ir::Value*> values) {
    for (const ir::Value* v : values) main->result_types.push_back(v->type);
    main->result_attrs.resize(values.size());
    b.FuncReturn(values);
    program.manual.resize(module->num_values());
    rules = std::make_unique<Rules>(program);
    shardings = Propagate(program, *rules);
  }

  std::string ShardingOf(const ir::Value* v) const {
    return sharding::ToString(shardings[v->id], program.mesh);
  }

  // What the collectives of the per-device program are, in order.
  std::vector<std::string> Collectives(Backend backend = Backend::kFfi) {
    std::vector<std::string> list;
    Partitioned(backend);
    for (const auto& spec : device.collectives) list.push_back(spec.ToString());
    return list;
  }
  std::string Text(Backend backend) {
    Partitioned(backend);
    return ir::WriteText(*device.module);
  }
  void Partitioned(Backend backend) {
    options.backend = backend;
    device = *Partition(program, *rules, shardings, options);
  }

  std::shared_ptr<ir::Module> module;
  ir::Function* main;
  ir::Builder b;
  Program program;
  std::unique_ptr<Rules> rules;
  std::vector<Sharding> shardings;
  PartitionOptions options;
  PerDevice device;
};

inline ir::Value* Dot(ir::Builder& b, ir::Value* lhs, ir::Value* rhs, int64_t lhs_dim,
                      int64_t rhs_dim, std::vector<int64_t> result) {
  ir::AttrDict attributes;
  ir::Set(attributes, "lhs_batching_dimensions", std::vector<int64_t>{});
  ir::Set(attributes, "rhs_batching_dimensions", std::vector<int64_t>{});
  ir::Set(attributes, "lhs_contracting_dimensions", std::vector<int64_t>{lhs_dim});
  ir::Set(attributes, "rhs_contracting_dimensions", std::vector<int64_t>{rhs_dim});
  ir::Value* operands[] = {lhs, rhs};
  const ir::Type type = ir::Type::Tensor(lhs->type.element, result);
  return b.Create(ir::OpKind::kDotGeneral, operands, {&type, 1}, std::move(attributes))->result();
}

// while (i < rounds) { state = next(state, a, b); ++i }; `next` builds the state's successor.
// Returns the last state.
template <typename Next>
ir::Value* Loop(TestProgram& p, ir::Value* state, ir::Value* a, ir::Value* b, const Next& next,
                int64_t rounds = 10) {
  const ir::Type i32 = ir::Type::Scalar(ElementType::kI32);
  ir::Value* operands[] = {p.b.SplatInt(i32, 0), state, a, b};
  std::vector<ir::Type> types;
  for (const ir::Value* v : operands) types.push_back(v->type);
  ir::Op* loop = p.b.Create(ir::OpKind::kWhile, operands, types);
  ir::Region* condition = p.module->AddRegion(loop);
  ir::Region* body = p.module->AddRegion(loop);
  for (const ir::Type& type : types) {
    p.module->AddArgument(condition, type);
    p.module->AddArgument(body, type);
  }
  ir::Builder test(p.module.get(), condition);
  ir::Value* less = test.Compare("LT", condition->arguments[0], test.SplatInt(i32, rounds));
  test.Return({&less, 1});
  ir::Builder in(p.module.get(), body);
  ir::Value* counter = in.Binary(ir::OpKind::kAdd, body->arguments[0], in.SplatInt(i32, 1));
  ir::Value* after = next(in, body->arguments[1], body->arguments[2], body->arguments[3]);
  in.Return(std::vector<ir::Value*>{counter, after, body->arguments[2], body->arguments[3]});
  return loop->result(1);
}

// Collectives that are not inside any loop.
inline int OutsideLoops(const PerDevice& device) {
  int count = 0;
  for (const ir::Op* op : device.module->main()->body->ops) {
    count += op->kind == ir::OpKind::kCustomCall;
  }
  return count;
}

}  // namespace shardway::spmd
