// Halo exchange: gives every device the stretch of a tensor that its part of a result is made of,
// by permutes of no more than the needed edges (GSPMD §4.3).
//
// Along one dimension, split over n parts, part j wants a *window* of `width` elements, put
// together from *pieces*: stretches of one or more tensors that are split over the same parts.
//
//   3-wide convolution of 16 over 4   part 1: [3, 9) of x at 0
//   x[::-1] of 16 over 4              part 1: [8, 12) of x at 0 (and the room reverses it)
//   roll(x, 2) of 16 over 4           part 0: [14, 16) of x at 0, [0, 2) at 2
//
// What a part does not hold itself travels in *rounds*, one permute each: in a round every part
// sends at most one stretch and receives at most one. A window wider than a tile takes as many
// rounds as it meets other tiles. What no piece covers is undefined, or the fill.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "shardway/spmd/costs.h"
#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

struct HaloPiece {
  int source = 0;      // which tensor
  int64_t start = 0;   // in the whole tensor; never reaches into padding
  int64_t length = 0;  // may cross tiles
  int64_t at = 0;      // where in the window
};

struct HaloNeeds {
  int64_t width = 0;
  std::vector<std::vector<HaloPiece>> parts;  // for each part: pieces that do not overlap

  // Adds [start, start + length) of a source, cut to its `size`, at `at`.
  void Add(size_t part, int source, int64_t size, int64_t start, int64_t length, int64_t at);
};

struct HaloMove {
  int from = 0;  // parts
  int to = 0;
  int source = 0;
  int64_t start = 0;  // in the sender's tile
  int64_t length = 0;
  int64_t at = 0;  // in the receiver's window
};

// A part may send to itself where the round is a permute anyway: then no part needs its own tile
// any more once the round is sent.
struct HaloRound {
  bool local = false;           // every part keeps a stretch of its own tile: no permute
  int64_t length = 0;           // of what travels
  std::vector<HaloMove> moves;  // at most one from and one to each part
};

struct HaloPlan {
  int64_t width = 0;
  int parts = 1;
  std::vector<HaloRound> rounds;
  // A part would need more than 32 tiles of others: not planned, and priced as impossible.
  bool too_wide = false;

  int64_t sent() const;      // elements along the dimension that a device sends
  int64_t permutes() const;  // how many
  // The permutes and what they carry, for rows of this many bytes.
  Traffic traffic(double row_bytes) const;
};

// `tiles`: the tile of each source, or kHeldWhole for one that is not split.
inline constexpr int64_t kHeldWhole = 0;
HaloPlan PlanHalo(const HaloNeeds& needs, absl::Span<const int64_t> tiles);

// The window of this device: `shards` (one for each source, of one element type and of the same
// sizes in all other dimensions), split over `axes` along `dim`. What no piece covers is `fill`, a
// scalar; undefined where that is null. With a `stride` only every so many-th element of the
// window.
ir::Value* EmitHalo(Emitter& e, const HaloPlan& plan, absl::Span<ir::Value* const> shards, int dim,
                    const AxisList& axes, ir::Value* fill, int64_t stride = 1);

}  // namespace shardway::spmd
