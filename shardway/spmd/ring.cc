#include "shardway/spmd/ring.h"

#include <string>
#include <utility>

namespace shardway::spmd {
namespace {

ir::Type I32() { return ir::Type::Scalar(ElementType::kI32); }

State Unrolled(Emitter& e, int64_t first, int64_t count, State state,
               const std::function<State(ir::Value*, State)>& body) {
  for (int64_t k = first; k < first + count; ++k) {
    state = body(e.b().SplatInt(I32(), k), std::move(state));
  }
  return state;
}

}  // namespace

Ring::Ring(Emitter& e, AxisList axes, int number)
    : e_(e),
      axes_(std::move(axes)),
      number_(number),
      size_(e.mesh().SizeOf(axes_)),
      right_(size_ / 2) {}

ir::Value* Ring::Send(ir::Value* x, int direction) {
  Emitter::Pairs pairs;
  for (int64_t p = 0; p < size_; ++p) pairs.emplace_back(p, (p + direction + size_) % size_);
  ir::Value* sent = e_.Permute(x, axes_, std::move(pairs));
  if (e_.backend() == Backend::kNative) {
    // Whoever counts collectives sees that the hops belong together.
    ir::AttrDict frontend;
    ir::Set(frontend, "shardway.ring", std::to_string(number_));
    ir::Set(sent->def->attributes, "mhlo.frontend_attributes",
            std::make_shared<const ir::AttrDict>(std::move(frontend)));
  }
  return sent;
}

ir::Value* Ring::Wrapped(ir::Value* sum) {
  // The sum is above -size: one more round makes it positive.
  ir::Builder& b = e_.b();
  sum = b.Binary(ir::OpKind::kAdd, sum, b.SplatInt(I32(), size_));
  return b.Binary(ir::OpKind::kRemainder, sum, b.SplatInt(I32(), size_));
}

ir::Value* Ring::Neighbour(int64_t offset) {
  ir::Value* here = e_.Coordinate(axes_);
  if (offset == 0) return here;
  ir::Builder& b = e_.b();
  return Wrapped(b.Binary(ir::OpKind::kAdd, here, b.SplatInt(I32(), offset)));
}

ir::Value* Ring::Neighbour(int64_t offset, int sign, ir::Value* step) {
  ir::Builder& b = e_.b();
  ir::Value* sum =
      b.Binary(sign > 0 ? ir::OpKind::kAdd : ir::OpKind::kSubtract, e_.Coordinate(axes_), step);
  if (offset != 0) sum = b.Binary(ir::OpKind::kAdd, sum, b.SplatInt(I32(), offset));
  return Wrapped(sum);
}

State Repeat(Emitter& e, int64_t first, int64_t count, State state,
             const std::function<State(ir::Value*, State)>& body) {
  if (count <= kMaxUnrolled) return Unrolled(e, first, count, std::move(state), body);
  ir::Builder& b = e.b();
  ir::Module* module = e.module();
  state.push_back(b.SplatInt(I32(), 0));
  std::vector<ir::Type> types;
  for (const ir::Value* v : state) types.push_back(v->type);
  ir::Op* loop = b.Create(ir::OpKind::kWhile, state, types);
  ir::Region* outer = b.region();
  auto enter = [&] {
    ir::Region* region = module->AddRegion(loop);
    for (const ir::Type& type : types) module->AddArgument(region, type);
    b.set_region(region);
    return State(region->arguments.begin(), region->arguments.end());
  };
  ir::Value* done = enter().back();
  ir::Value* more = b.Compare("LT", done, b.SplatInt(I32(), count));
  b.Return({&more, 1});
  State inside = enter();
  ir::Value* run = inside.back();
  inside.pop_back();
  ir::Value* step = b.Binary(ir::OpKind::kAdd, run, b.SplatInt(I32(), first));
  State next = body(step, std::move(inside));
  next.push_back(b.Binary(ir::OpKind::kAdd, run, b.SplatInt(I32(), 1)));
  b.Return(next);
  b.set_region(outer);
  return State(loop->results.begin(), loop->results.end() - 1);
}

}  // namespace shardway::spmd
