// Transforms of real signals along a split dimension, by complex ones of half the length.
//
// A signal of N = 2 M real elements is M pairs, as complex numbers z. With Z their transform,
// θ = 2 pi k / N and Z[M] = Z[0], the spectrum's M + 1 elements are
//
//   X[k] = (Z[k] + conj Z[M-k]) / 2 - i exp(-iθ) (Z[k] - conj Z[M-k]) / 2
//   Z[k] = (X[k] + conj X[M-k]) / 2 + i exp(+iθ) (X[k] - conj X[M-k]) / 2      and back
//
// so besides the transform itself only the mirrored part travels, and the edges by which tiles of
// M + 1 elements differ from those of M.
#pragma once

#include "shardway/spmd/costs.h"
#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

// Along the last dimension of a shard, split over `axes`; M is a multiple of the parts.
class RealFft {
 public:
  // `pairs`: M.
  RealFft(Emitter& e, int64_t pairs, const AxisList& axes)
      : e_(e), b_(e.b()), pairs_(pairs), axes_(axes) {}

  // Of neighbouring real elements, and back.
  ir::Value* ToPairs(ir::Value* signal);
  ir::Value* FromPairs(ir::Value* pairs);
  // From the transform of the pairs to the signal's spectrum, in tiles of CeilDiv(M + 1, parts),
  // and back.
  ir::Value* Spectrum(ir::Value* transform);
  ir::Value* FromSpectrum(ir::Value* spectrum);

  // What the last two send, for rows of this many bytes (costs.h).
  static Traffic ToSpectrum(int64_t pairs, int64_t parts, double row_bytes);
  static Traffic FromSpectrum(int64_t pairs, int64_t parts, double row_bytes);

 private:
  int64_t parts() const { return e_.mesh().SizeOf(axes_); }
  // For each k of this part the element at M - k: the conjugate of the window's, in reverse.
  ir::Value* Mirrored(ir::Value* window);
  // (a + b) / 2 + (a - b) / 2 · turn, where turn is ∓i exp(∓iθ).
  ir::Value* Join(ir::Value* a, ir::Value* b, bool forward);
  // The number k of each element of this part, as i32 [tile].
  ir::Value* Numbers();

  Emitter& e_;
  ir::Builder& b_;
  const int64_t pairs_;
  const AxisList& axes_;
};

}  // namespace shardway::spmd
