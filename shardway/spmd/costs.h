// What the planners weigh, in one place. The unit is the byte: what a device could send inside its
// host in the same time. What crosses hosts or islands is dearer, see Mesh::PriceOf.
#pragma once

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

// What a collective costs beside its data: what CPU workers could send in the time of a small one
// (bench/collective_costs.py: 4,200 to 11,800 bytes; 2 us at 3.5 GB/s). A permute or a gather of a
// few rows is less than one that all parts wait for.
inline constexpr double kCollectivePrice = 4096;
inline constexpr double kPermutePrice = 512;
inline constexpr double kCopyPrice = 0.05;  // of a byte copied locally
// While a device does one multiply-add; while it touches one element.
inline constexpr double kBytesPerFlop = 0.05;
inline constexpr double kBytesPerElement = 0.2;

// What a device takes part in: collectives, each at one of the prices above, and the bytes that it
// sends in them.
struct Traffic {
  double collectives = 0;
  double bytes = 0;
  friend Traffic operator+(const Traffic& a, const Traffic& b) {
    return {a.collectives + b.collectives, a.bytes + b.bytes};
  }
  friend Traffic operator*(double times, const Traffic& t) {
    return {times * t.collectives, times * t.bytes};
  }
};
// Over `axes`, whose links set the price: latency and bandwidth apart.
inline double CostOver(const Traffic& traffic, const Mesh& mesh, AxisSet axes) {
  const topology::LinkPrice price = mesh.PriceOf(axes);
  return price.collective * traffic.collectives + price.byte * traffic.bytes;
}
inline double CostOver(const Traffic& traffic, const Mesh& mesh, const AxisList& axes) {
  return CostOver(traffic, mesh, sharding::ToSet(axes));
}

// What decides whether a collective is taken apart to run beside computation.
struct OverlapCosts {
  double share;  // of the time of sending that may be hidden behind computation
  double step;   // what one hop and one more operator cost beside data and work
  double bytes_per_flop;
  double copy;
};

// kFfi: collectives are copies in memory, by the cores that compute: nothing can be hidden.
// kNative: accelerators send while they compute. Their links and units are of another kind than a
// CPU's: 400 GB/s, 5 us for a hop with a kernel, 3.5e14 multiply-adds a second (data sheets of
// the present ones; not measured).
constexpr OverlapCosts OverlapOf(Backend backend) {
  if (backend == Backend::kFfi) return {0, kCollectivePrice, kBytesPerFlop, kCopyPrice};
  return {1, 2e6, 0.0011, 0.25};
}

// Of a dot_general.
double MultiplyAdds(const ir::Op& dot);

}  // namespace shardway::spmd
