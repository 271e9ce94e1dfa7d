#include "shardway/spmd/real_fft.h"

#include <numbers>

#include "shardway/spmd/halo.h"
#include "shardway/spmd/reshard.h"

namespace shardway::spmd {
namespace {

using sharding::CeilDiv;

std::vector<int64_t> Ending(const ir::Value* x, std::vector<int64_t> ends) {
  std::vector<int64_t> dims(x->type.dims.begin(), x->type.dims.end() - 1);
  dims.insert(dims.end(), ends.begin(), ends.end());
  return dims;
}

// Of [0, size) in tiles of `tile`: for each part p the elements at M - k of its k in [p h, (p+1)
// h), in the order that they lie in.
HaloNeeds Mirror(int64_t pairs, int64_t parts, int64_t size) {
  const int64_t h = pairs / parts;
  HaloNeeds needs;
  needs.width = h;
  needs.parts.resize(parts);
  for (int64_t p = 0; p < parts; ++p) needs.Add(p, 0, size, pairs - (p + 1) * h + 1, h, 0);
  if (size == pairs) needs.Add(0, 0, size, 0, 1, h - 1);  // Z[M] is Z[0]
  return needs;
}

HaloPlan PlanOf(const HaloNeeds& needs, std::vector<int64_t> tiles) {
  return PlanHalo(needs, tiles);
}

HaloPlan MirroredTransform(int64_t pairs, int64_t parts) {
  return PlanOf(Mirror(pairs, parts, pairs), {pairs / parts});
}

HaloPlan MirroredSpectrum(int64_t pairs, int64_t parts) {
  return PlanOf(Mirror(pairs, parts, pairs + 1), {CeilDiv(pairs + 1, parts)});
}

// Tiles of M + 1 elements from those of the first M, and the last from the first part.
HaloPlan SpectrumTiles(int64_t pairs, int64_t parts) {
  const int64_t tile = CeilDiv(pairs + 1, parts);
  HaloNeeds needs = RetileNeeds(pairs, parts, tile);
  needs.Add(pairs / tile, 1, 1, 0, 1, pairs % tile);
  return PlanOf(needs, {pairs / parts, 1});
}

HaloPlan PairTiles(int64_t pairs, int64_t parts) {
  return PlanOf(RetileNeeds(pairs, parts, pairs / parts), {CeilDiv(pairs + 1, parts)});
}

}  // namespace

ir::Value* RealFft::ToPairs(ir::Value* signal) {
  const int rank = signal->type.rank();
  const int64_t count = signal->type.dims[rank - 1] / 2;
  ir::Value* both = b_.Reshape(signal, Ending(signal, {count, 2}));
  std::vector<int64_t> from(rank + 1), to(both->type.dims.begin(), both->type.dims.end());
  ir::Value* halves[2];
  for (int64_t i = 0; i < 2; ++i) {
    from[rank] = i;
    to[rank] = i + 1;
    halves[i] = b_.Reshape(b_.Slice(both, from, to), Ending(signal, {count}));
  }
  return b_.Complex(halves[0], halves[1]);
}

ir::Value* RealFft::FromPairs(ir::Value* pairs) {
  const int rank = pairs->type.rank();
  const int64_t count = pairs->type.dims[rank - 1];
  ir::Value* halves[] = {b_.Reshape(b_.Real(pairs), Ending(pairs, {count, 1})),
                         b_.Reshape(b_.Imag(pairs), Ending(pairs, {count, 1}))};
  return b_.Reshape(b_.Concatenate(halves, rank), Ending(pairs, {2 * count}));
}

ir::Value* RealFft::Spectrum(ir::Value* transform) {
  const int last = transform->type.rank() - 1;
  ir::Value* window =
      EmitHalo(e_, MirroredTransform(pairs_, parts()), {&transform, 1}, last, axes_, nullptr);
  ir::Value* spectrum = Join(transform, Mirrored(window), /*forward=*/true);
  // X[M] is Re Z[0] - Im Z[0], which the first part has.
  const std::vector<int64_t> from(last + 1);
  ir::Value* first = b_.Slice(transform, from, Ending(transform, {1}));
  ir::Value* real = b_.Binary(ir::OpKind::kSubtract, b_.Real(first), b_.Imag(first));
  ir::Value* end = b_.Complex(real, b_.SplatInt(real->type, 0));
  ir::Value* sources[] = {spectrum, end};
  return EmitHalo(e_, SpectrumTiles(pairs_, parts()), sources, last, axes_, nullptr);
}

ir::Value* RealFft::FromSpectrum(ir::Value* spectrum) {
  const int last = spectrum->type.rank() - 1;
  ir::Value* here = EmitHalo(e_, PairTiles(pairs_, parts()), {&spectrum, 1}, last, axes_, nullptr);
  ir::Value* there =
      EmitHalo(e_, MirroredSpectrum(pairs_, parts()), {&spectrum, 1}, last, axes_, nullptr);
  // The first and the last are real; what else is said of them does not count.
  ir::Value* is_first = b_.Compare("EQ", Numbers(), b_.SplatInt(Numbers()->type, 0));
  const int64_t along[] = {last};
  auto real_first = [&](ir::Value* x) {
    ir::Value* real = b_.Real(x);
    ir::Value* imag = b_.Select(b_.BroadcastInDim(is_first, x->type.dims, along),
                                b_.SplatInt(real->type, 0), b_.Imag(x));
    return b_.Complex(real, imag);
  };
  return Join(real_first(here), real_first(Mirrored(there)), /*forward=*/false);
}

ir::Value* RealFft::Mirrored(ir::Value* window) {
  ir::AttrDict attributes;
  ir::Set(attributes, "dimensions", std::vector<int64_t>{window->type.rank() - 1});
  window = b_.Create(ir::OpKind::kReverse, {&window, 1}, {&window->type, 1}, std::move(attributes))
               ->result();
  ir::Value* real = b_.Real(window);
  return b_.Complex(real, b_.Unary(ir::OpKind::kNegate, b_.Imag(window)));
}

ir::Value* RealFft::Join(ir::Value* a, ir::Value* b, bool forward) {
  const ElementType real = RealOf(a->type.element);
  const ir::Type table = ir::Type::Tensor(ElementType::kF64, {pairs_ / parts()});
  ir::Value* angle = b_.Binary(ir::OpKind::kMultiply, b_.Convert(Numbers(), ElementType::kF64),
                               b_.Splat(table, std::numbers::pi / static_cast<double>(pairs_)));
  // i exp(iθ) = -sin θ + i cos θ, and -i exp(-iθ) = -sin θ - i cos θ.
  ir::Value* cosine = b_.Unary(ir::OpKind::kCosine, angle);
  ir::Value* halves[] = {
      b_.Convert(b_.Unary(ir::OpKind::kNegate, b_.Unary(ir::OpKind::kSine, angle)), real),
      b_.Convert(forward ? b_.Unary(ir::OpKind::kNegate, cosine) : cosine, real)};
  ir::Value* turn = b_.Complex(halves[0], halves[1]);
  const int64_t along[] = {a->type.rank() - 1};
  turn = b_.BroadcastInDim(turn, a->type.dims, along);
  ir::Value* sum = b_.Binary(ir::OpKind::kAdd, a, b);
  ir::Value* difference = b_.Binary(ir::OpKind::kSubtract, a, b);
  ir::Value* both =
      b_.Binary(ir::OpKind::kAdd, sum, b_.Binary(ir::OpKind::kMultiply, difference, turn));
  return b_.Binary(ir::OpKind::kMultiply, both, b_.Splat(a->type, 0.5));
}

ir::Value* RealFft::Numbers() {
  const int64_t tile = pairs_ / parts();
  const ir::Type type = ir::Type::Tensor(ElementType::kI32, {tile});
  ir::Value* begin = b_.Binary(ir::OpKind::kMultiply, e_.Coordinate(axes_),
                               b_.SplatInt(ir::Type::Scalar(ElementType::kI32), tile));
  return b_.Binary(ir::OpKind::kAdd, b_.Iota(type, 0), b_.BroadcastInDim(begin, type.dims, {}));
}

Traffic RealFft::ToSpectrum(int64_t pairs, int64_t parts, double row_bytes) {
  return MirroredTransform(pairs, parts).traffic(row_bytes) +
         SpectrumTiles(pairs, parts).traffic(row_bytes);
}

Traffic RealFft::FromSpectrum(int64_t pairs, int64_t parts, double row_bytes) {
  return PairTiles(pairs, parts).traffic(row_bytes) +
         MirroredSpectrum(pairs, parts).traffic(row_bytes);
}

}  // namespace shardway::spmd
