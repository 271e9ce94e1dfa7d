#include "shardway/spmd/einsum_window_emit.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "shardway/spmd/reshard.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

ir::Type I32() { return ir::Type::Scalar(ElementType::kI32); }

// Tiles of values, by the number of the tile.
class Tiles {
 public:
  Tiles(Emitter& e, int64_t tile, int64_t count) : e_(e), tile_(tile), count_(count) {}

  int64_t tile() const { return tile_; }
  int64_t total() const { return tile_ * count_; }

  ir::Value* Start(ir::Value* number) {
    return e_.b().Binary(ir::OpKind::kMultiply, number, e_.b().SplatInt(I32(), tile_));
  }
  std::vector<ir::Value*> Starts(int rank, int dim, ir::Value* number) {
    std::vector<ir::Value*> starts(rank, e_.b().SplatInt(I32(), 0));
    starts[dim] = Start(number);
    return starts;
  }

  // To be called, before any loop, of every value that is cut. `fill`: what it has beyond its end.
  void Prepare(ir::Value* v, int dim, int64_t fill = 0) {
    ir::Value*& padded = padded_[{v, dim}];
    if (padded == nullptr) padded = Scalar(v) != nullptr ? v : PadDim(e_, v, dim, total(), fill);
  }
  ir::Value* Cut(ir::Value* v, int dim, ir::Value* number) {
    std::vector<int64_t> dims(v->type.dims.begin(), v->type.dims.end());
    dims[dim] = tile_;
    if (ir::Value* scalar = Scalar(v)) return e_.b().BroadcastInDim(scalar, dims, {});
    ir::Value* padded = padded_.at({v, dim});
    return e_.b().DynamicSlice(padded, Starts(v->type.rank(), dim, number), dims);
  }

  // `x`, tile `number` along `dim` of a value of `size`, with `fill` beyond that size.
  ir::Value* Mask(ir::Value* x, int dim, int64_t size, ir::Value* number, ir::Value* fill) {
    ir::Builder& b = e_.b();
    ir::Value* left = b.Binary(ir::OpKind::kSubtract, b.SplatInt(I32(), size), Start(number));
    return KeepFirst(e_, x, dim, left, fill);
  }

 private:
  // What `v` is a broadcast of, or null.
  static ir::Value* Scalar(const ir::Value* v) {
    const bool broadcast = v->def != nullptr && v->def->kind == ir::OpKind::kBroadcastInDim;
    return broadcast && v->def->operand(0)->type.rank() == 0 ? v->def->operand(0) : nullptr;
  }

  Emitter& e_;
  const int64_t tile_, count_;
  absl::flat_hash_map<std::pair<const ir::Value*, int>, ir::Value*> padded_;
};

// The dot_general on other operands; the tiled loop is `tile` long in the result.
ir::Value* PartialDot(Emitter& e, const ir::Op& dot, absl::Span<ir::Value* const> operands,
                      const TiledLoop& loop, int64_t tile, ElementType element) {
  ir::Type type = ir::Type::Tensor(element, dot.result()->type.dims);
  if (loop.result >= 0) type.dims[loop.result] = tile;
  return e.b().Create(ir::OpKind::kDotGeneral, operands, {&type, 1}, dot.attributes)->result();
}

ElementType SumType(const ir::Op& dot) {
  const ElementType element = dot.result()->type.element;
  const bool narrow = element == ElementType::kBF16 || element == ElementType::kF16;
  // An algorithm that the user chose fixes the types.
  return narrow && dot.Find("accumulation_type") == nullptr ? ElementType::kF32 : element;
}

class GatherEmitter {
 public:
  GatherEmitter(Emitter& e, const GatherWindow& window, Ring& ring)
      : e_(e),
        window_(window),
        ring_(ring),
        tiles_(e, window.gather->operand(0)->type.dims[window.dim], ring.size()) {}

  State Emit(bool poison) {
    ir::Value* own = Own(poison);
    Prepare();
    const bool both = ring_.left() > 0;
    State state = {ring_.Send(own, +1)};
    if (both) state.push_back(ring_.Send(own, -1));
    const size_t moving = state.size();
    State sums;
    for (const DotOfGather& d : window_.dots) sums.push_back(Initial(d));
    sums = Apply(own, ring_.Neighbour(0), std::move(sums));
    state.insert(state.end(), sums.begin(), sums.end());
    const auto use = [&](const State& now, ir::Value* from_left, ir::Value* from_right) {
      State next = Apply(now[0], from_left, State(now.begin() + moving, now.end()));
      return both ? Apply(now[1], from_right, std::move(next)) : next;
    };
    const int64_t last = both ? ring_.left() : ring_.right();
    state = Repeat(e_, 1, last - 1, std::move(state), [&](ir::Value* step, const State& now) {
      State next = {ring_.Send(now[0], +1)};
      if (both) next.push_back(ring_.Send(now[1], -1));
      const State used =
          use(now, ring_.Neighbour(0, -1, step), both ? ring_.Neighbour(0, +1, step) : nullptr);
      next.insert(next.end(), used.begin(), used.end());
      return next;
    });
    ir::Value* farthest = ring_.right() > last ? ring_.Send(state[0], +1) : nullptr;
    sums = use(state, ring_.Neighbour(-last), both ? ring_.Neighbour(last) : nullptr);
    if (farthest != nullptr) {
      sums = Apply(farthest, ring_.Neighbour(-ring_.right()), std::move(sums));
    }
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = Final(window_.dots[i], sums[i]);
    return sums;
  }

 private:
  ir::Value* Own(bool poison) {
    ir::Value* own = window_.gather->operand(0);
    if (window_.size == tiles_.total()) return own;
    const bool summed = std::any_of(window_.dots.begin(), window_.dots.end(),
                                    [](const DotOfGather& d) { return d.loop.contracting(); });
    if (!summed && !poison) return own;
    const ir::Type scalar = ir::Type::Scalar(own->type.element);
    const bool is_int = IsInteger(scalar.element) || scalar.element == ElementType::kI1;
    constexpr int64_t kPoison = 113;
    ir::Value* fill = summed   ? e_.b().SplatInt(scalar, 0)
                      : is_int ? e_.b().SplatInt(scalar, kPoison)
                               : e_.b().Splat(scalar, std::numeric_limits<double>::quiet_NaN());
    return tiles_.Mask(own, window_.dim, window_.size, ring_.Neighbour(0), fill);
  }

  void Prepare() {
    for (const DotOfGather& d : window_.dots) {
      const int dim = d.loop.operand[1 - d.side];
      if (dim >= 0) tiles_.Prepare(d.dot->operand(1 - d.side), dim);
      for (const TileStep& step : d.steps) {
        if (step.op->kind != ir::OpKind::kSelect) continue;
        // What is zero beyond the end stays so.
        tiles_.Prepare(step.op->operand(0), step.dim, /*fill=*/1);
        tiles_.Prepare(step.op->operand(2), step.dim);
      }
    }
  }

  ir::Value* Initial(const DotOfGather& d) {
    if (d.loop.contracting()) return nullptr;  // the first partial dot
    ir::Type type = d.dot->result()->type;
    type.dims[d.loop.result] = tiles_.total();
    return e_.b().SplatInt(type, 0);
  }

  // The operand of the dot_general out of a tile of what is gathered.
  ir::Value* OperandOf(const DotOfGather& d, ir::Value* tile, ir::Value* number) {
    for (const TileStep& step : d.steps) {
      if (step.op->kind == ir::OpKind::kConvert) {
        tile = e_.b().Convert(tile, step.op->result()->type.element);
      } else if (step.op->kind == ir::OpKind::kTranspose) {
        tile = e_.b().Transpose(tile, step.op->IntList("permutation"));
      } else if (step.op->kind == ir::OpKind::kSelect) {
        tile = e_.b().Select(tiles_.Cut(step.op->operand(0), step.dim, number), tile,
                             tiles_.Cut(step.op->operand(2), step.dim, number));
      }
    }
    return tile;
  }

  State Apply(ir::Value* tile, ir::Value* number, State sums) {
    for (size_t i = 0; i < sums.size(); ++i) {
      const DotOfGather& d = window_.dots[i];
      ir::Value* operands[2];
      operands[d.side] = OperandOf(d, tile, number);
      ir::Value* other = d.dot->operand(1 - d.side);
      const int dim = d.loop.operand[1 - d.side];
      operands[1 - d.side] = dim >= 0 ? tiles_.Cut(other, dim, number) : other;
      const ElementType element =
          d.loop.contracting() ? SumType(*d.dot) : d.dot->result()->type.element;
      ir::Value* part = PartialDot(e_, *d.dot, operands, d.loop, tiles_.tile(), element);
      if (!d.loop.contracting()) {
        part = e_.b().DynamicUpdateSlice(sums[i], part,
                                         tiles_.Starts(part->type.rank(), d.loop.result, number));
      } else if (sums[i] != nullptr) {
        part = e_.b().Binary(ir::OpKind::kAdd, sums[i], part);
      }
      sums[i] = part;
    }
    return sums;
  }

  ir::Value* Final(const DotOfGather& d, ir::Value* sum) {
    const ir::Type& type = d.dot->result()->type;
    sum = e_.b().Convert(sum, type.element);
    if (sum->type == type) return sum;
    return e_.b().Slice(sum, std::vector<int64_t>(type.rank()), type.dims);
  }

  Emitter& e_;
  const GatherWindow& window_;
  Ring& ring_;
  Tiles tiles_;
};

class ScatterEmitter {
 public:
  ScatterEmitter(Emitter& e, const ScatterWindow& window, Ring& ring)
      : e_(e),
        window_(window),
        ring_(ring),
        tiles_(e, window.scatter->result()->type.dims[window.dim], ring.size()) {}

  ir::Value* Emit() {
    for (int side = 0; side < 2; ++side) {
      const int dim = window_.loop.operand[side];
      if (dim >= 0) tiles_.Prepare(window_.dot->operand(side), dim);
    }
    // The sum that a device begins goes to the one that is `right` (`left`) places away.
    const int64_t right = ring_.right(), left = ring_.left();
    const bool both = left > 0;
    State state = {Block(ring_.Neighbour(right))};
    if (both) state.push_back(Block(ring_.Neighbour(-left)));
    const int64_t ahead = both ? right - left : 0;  // hops that only the one to the right makes
    if (ahead > 0) {
      state[0] = ring_.Send(state[0], +1);
      state[0] = Add(state[0], Block(ring_.Neighbour(right - ahead)));
    }
    const int64_t last = right - ahead;
    state = Repeat(e_, 1, last - 1, std::move(state), [&](ir::Value* step, State now) {
      now[0] = ring_.Send(now[0], +1);
      if (both) now[1] = ring_.Send(now[1], -1);
      now[0] = Add(now[0], Block(ring_.Neighbour(last, -1, step)));
      if (both) now[1] = Add(now[1], Block(ring_.Neighbour(-left, +1, step)));
      return now;
    });
    state[0] = ring_.Send(state[0], +1);
    if (both) state[1] = ring_.Send(state[1], -1);
    ir::Value* sum = Add(state[0], Block(ring_.Neighbour(0)));
    return both ? Add(sum, state[1]) : sum;
  }

 private:
  ir::Value* Add(ir::Value* a, ir::Value* c) { return e_.b().Binary(ir::OpKind::kAdd, a, c); }

  // This device's part of what goes to device `number` of the ring.
  ir::Value* Block(ir::Value* number) {
    const ir::Op& dot = *window_.dot;
    ir::Value* operands[2];
    for (int side = 0; side < 2; ++side) {
      const int dim = window_.loop.operand[side];
      operands[side] = dot.operand(side);
      if (dim >= 0) operands[side] = tiles_.Cut(operands[side], dim, number);
    }
    ir::Value* block =
        PartialDot(e_, dot, operands, window_.loop, tiles_.tile(), dot.result()->type.element);
    for (const TileStep& step : window_.steps) {
      if (step.op->kind == ir::OpKind::kConvert) {
        block = e_.b().Convert(block, step.op->result()->type.element);
      } else if (step.op->kind == ir::OpKind::kTranspose) {
        block = e_.b().Transpose(block, step.op->IntList("permutation"));
      } else if (window_.size < tiles_.total()) {  // padded
        block = tiles_.Mask(block, step.dim, window_.size, number, step.op->operand(1));
      }
    }
    return block;
  }

  Emitter& e_;
  const ScatterWindow& window_;
  Ring& ring_;
  Tiles tiles_;
};

}  // namespace

std::vector<ir::Value*> EmitGatherWindow(Emitter& e, const GatherWindow& window, Ring& ring,
                                         bool poison) {
  return GatherEmitter(e, window, ring).Emit(poison);
}

ir::Value* EmitScatterWindow(Emitter& e, const ScatterWindow& window, Ring& ring) {
  return ScatterEmitter(e, window, ring).Emit();
}

}  // namespace shardway::spmd
