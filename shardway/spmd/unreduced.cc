#include "shardway/spmd/unreduced.h"

#include <algorithm>
#include <utility>

#include "shardway/spmd/reshard.h"

namespace shardway::spmd {
namespace {

class Finder {
 public:
  Finder(const Program& program, const std::vector<Sharding>& shardings)
      : program_(program), shardings_(shardings), found_(program.module->num_values()) {}

  std::vector<AxisSet> Run() {
    const ir::Region& body = *program_.module->main()->body;
    for (const ir::Value* v : body.arguments) Annotated(v);
    Walk(body);
    return std::move(found_);
  }

 private:
  void Annotated(const ir::Value* v) {
    const auto at = program_.annotations.find(v->id);
    if (at != program_.annotations.end()) Set(v, at->second.unreduced);
  }

  void Set(const ir::Value* v, AxisSet axes) {
    const AxisSet split = shardings_[v->id].used() | program_.manual_of(v);
    if (v->type.is_tensor() && (axes & split) == 0) found_[v->id] = axes;
  }

  void Walk(const ir::Region& region) {
    for (const ir::Op* op : region.ops) {
      if (op->kind == ir::OpKind::kSdyShardingConstraint || IsConversion(*op)) {
        Annotated(op->result());
      }
      if (op->kind == ir::OpKind::kOptimizationBarrier) {
        for (size_t i = 0; i < op->results.size(); ++i) {
          Set(op->results[i], found_[op->operand(i)->id]);
        }
      }
      const bool loop = op->kind == ir::OpKind::kWhile;
      if (!loop && op->kind != ir::OpKind::kIf && op->kind != ir::OpKind::kCase) continue;
      for (const ir::Region* inner : op->regions) Walk(*inner);
      for (size_t i = 0; i < op->results.size(); ++i) {
        if (loop) {
          State(*op, i);
        } else {
          Result(*op, i);
        }
      }
    }
  }

  // A state that the loop only hands on stays as it came.
  void State(const ir::Op& loop, size_t i) {
    const ir::Region& body = *loop.regions[1];
    const ir::Value* next = body.terminator()->operand(i);
    if (next == body.arguments[i]) next = loop.operand(i);
    const AxisSet axes = found_[next->id];
    const ir::Value* state[] = {body.arguments[i], loop.regions[0]->arguments[i], loop.results[i]};
    for (const ir::Value* v : state) {
      if (((shardings_[v->id].used() | program_.manual_of(v)) & axes) != 0) return;
    }
    for (const ir::Value* v : state) Set(v, axes);
  }

  void Result(const ir::Op& branches, size_t i) {
    AxisSet axes = 0;
    for (const ir::Region* branch : branches.regions) {
      const AxisSet here = found_[branch->terminator()->operand(i)->id];
      if (here != 0 && axes != 0 && here != axes) return;
      axes |= here;
    }
    Set(branches.results[i], axes);
  }

  const Program& program_;
  const std::vector<Sharding>& shardings_;
  std::vector<AxisSet> found_;
};

// The atoms at the end of `list` that are among `axes`.
AxisList Ending(const AxisList& list, AxisSet axes) {
  size_t begin = list.size();
  while (begin > 0 && sharding::Contains(axes, list[begin - 1])) --begin;
  return {list.begin() + static_cast<int64_t>(begin), list.end()};
}

}  // namespace

std::vector<AxisSet> UnreducedValues(const Program& program,
                                     const std::vector<Sharding>& shardings) {
  return Finder(program, shardings).Run();
}

ir::Value* OnOneDevice(Emitter& e, ir::Value* x, AxisSet axes) {
  if (axes == 0) return x;
  ir::Builder& b = e.b();
  ir::Value* zero = b.SplatInt(ir::Type::Scalar(ElementType::kI32), 0);
  ir::Value* is_first = b.Compare("EQ", e.Coordinate(e.mesh().ToList(axes)), zero);
  return b.Select(b.BroadcastInDim(is_first, x->type.dims, {}), x, b.SplatInt(x->type, 0));
}

ir::Value* ToParts(Emitter& e, ir::Value* whole, const ir::Type& type, const Sharding& sharding,
                   AxisSet axes, const Sharding& want, AxisSet manual) {
  const Mesh& mesh = e.mesh();
  ir::Builder& b = e.b();
  Sharding around = sharding;  // without the axes whose shards get zeros around them
  std::vector<ir::Value*> starts;
  for (int d = 0; d < sharding.rank(); ++d) {
    const AxisList own = Ending(sharding.dims[d], axes);
    ir::Value* start = b.SplatInt(ir::Type::Scalar(ElementType::kI32), 0);
    if (!own.empty() && type.dims[d] % mesh.SizeOf(sharding.dims[d]) == 0) {
      around.dims[d].resize(sharding.dims[d].size() - own.size());
      ir::Value* size = b.SplatInt(start->type, whole->type.dims[d]);
      start = b.Binary(ir::OpKind::kMultiply, e.Coordinate(own), size);
    }
    starts.push_back(start);
  }
  if ((around.used() & axes) != 0) {  // tiles that are no stretches of what is wanted
    whole = EmitReshard(e, whole, type, sharding, want, manual);
    return OnOneDevice(e, whole, axes);
  }
  const AxisSet placed = sharding.used() & axes;
  if (placed != 0) {
    ir::Value* zeros = b.SplatInt(sharding::LocalType(type, around, mesh), 0);
    whole = b.DynamicUpdateSlice(zeros, whole, starts);
  }
  whole = OnOneDevice(e, whole, axes & ~placed);
  return EmitReshard(e, whole, type, around, want, manual | axes);
}

}  // namespace shardway::spmd
