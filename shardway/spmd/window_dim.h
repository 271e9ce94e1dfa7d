// One dimension of a windowed operator (slice, pad, reduce_window, convolution …), and what a part
// of its result needs of its operand.
//
// Result element o is made of the operand's elements at o·stride − low + t·window_dilation for
// t in [0, window), counted among the elements and the holes that base_dilation puts between them.
#pragma once

#include <cstdint>
#include <vector>

#include "shardway/spmd/halo.h"

namespace shardway::spmd {

// Positions may be negative; b is positive.
inline int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
inline int64_t CeilDiv(int64_t a, int64_t b) { return -FloorDiv(-a, b); }

struct WindowDim {
  int64_t size = 0;  // of the operand
  int64_t result = 0;
  int64_t window = 1;
  int64_t stride = 1;
  int64_t low = 0;  // padding before the first element, negative: elements dropped
  int64_t base_dilation = 1;
  int64_t window_dilation = 1;

  int64_t reach() const { return (window - 1) * window_dilation + 1; }
};

// The operator on one device: it runs on a window of `needs.width` elements that `halo` fetches,
// with this padding, and gives a tile of the result. Where parts of the result begin at different
// distances from their first element (a base dilation that the tile's steps do not divide), the
// holes are written out first: see DilateWindow.
struct LocalWindow {
  HaloPlan halo;
  int64_t low = 0;
  int64_t high = 0;
  // For each part the holes before its first element; empty where they are alike.
  std::vector<int64_t> phases;
  int64_t extent = 0;  // what the tile's windows reach over, holes counted
};

// Result split over `parts`, and the operand too unless it is `whole` on every device.
LocalWindow PlanWindow(const WindowDim& dim, int64_t parts, bool whole = false);

// `x` as EmitHalo gave it for `local.halo`: unchanged where `phases` is empty, otherwise with its
// holes written out as `fill`, cut so that neither dilation nor padding is left to do.
ir::Value* DilateWindow(Emitter& e, const LocalWindow& local, int64_t base_dilation, ir::Value* x,
                        int dim, const AxisList& axes, ir::Value* fill);

}  // namespace shardway::spmd
