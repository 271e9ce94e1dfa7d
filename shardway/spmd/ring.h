// A ring of the devices of some axes, along which things are handed on hop by hop, both ways round
// where there are more than two: half the hops, and links in both directions busy.
//
//   hop k of 8 devices    from the left what began k places left (4 hops), from the right what
//                         began k places right (3 hops): together everybody else's
//
// Every hop is a collective-permute of the whole thing, so that all hops together send what the
// all-gather or the reduce-scatter in their place would.
#pragma once

#include <functional>
#include <vector>

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

class Ring {
 public:
  // `number` tells the rings of a program apart (Cause::ring).
  Ring(Emitter& e, AxisList axes, int number);

  int64_t size() const { return size_; }
  // Hops to the right and to the left, size() - 1 together; the right ones are as many or one more.
  int64_t right() const { return right_; }
  int64_t left() const { return size_ - 1 - right_; }

  // `x` to the neighbour: to the right (+1) or to the left (-1).
  ir::Value* Send(ir::Value* x, int direction);
  // The number of the device that is `offset` places to the right, as an i32 scalar.
  ir::Value* Neighbour(int64_t offset);
  // The same for `offset + sign * step`, `step` an i32 scalar; |offset ± step| < size().
  ir::Value* Neighbour(int64_t offset, int sign, ir::Value* step);

 private:
  ir::Value* Wrapped(ir::Value* sum);

  Emitter& e_;
  AxisList axes_;
  int number_;
  int64_t size_;
  int64_t right_;
};

// The values that a repeated piece of program hands from one run to the next.
using State = std::vector<ir::Value*>;

// Emits `body` for the steps first, first + 1, …, `count` of them: each gets its step as an i32
// scalar and the state that the one before returned (of the same types). Few are written one after
// the other, so that XLA sees across them and copies no state; many are a loop, so that the program
// does not grow with the devices.
State Repeat(Emitter& e, int64_t first, int64_t count, State state,
             const std::function<State(ir::Value* step, State state)>& body);

inline constexpr int64_t kMaxUnrolled = 4;

}  // namespace shardway::spmd
