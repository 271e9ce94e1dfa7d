// What rooms of windowed operators share: the windows of all dimensions of an operand, their price,
// and the exchange, one dimension after the other (so corners come by way of two neighbours).
#pragma once

#include <optional>
#include <vector>

#include "shardway/spmd/room.h"
#include "shardway/spmd/window_dim.h"

namespace shardway::spmd {

using Windows = std::vector<std::optional<WindowDim>>;  // by dimension; those that may be split

// The factors of an operator's first operand and of its result, dimension by dimension: a window
// where `windows` has one, passed through where both are of one size, else not to be split.
struct WindowFactors {
  TensorFactors operand;
  TensorFactors result;
};
WindowFactors AddWindowFactors(OpRule& rule, const ir::Op& op, const Windows& windows);

double ExchangeCost(const ir::Type& operand, const TensorFactors& tensor, const Windows& windows,
                    const OpRule& rule, const FactorAxes& axes, const Mesh& mesh);

struct Fetched {
  ir::Value* value = nullptr;
  std::vector<std::optional<LocalWindow>> dims;  // of the dimensions that are split
};
// Operand `index` of `local`, with the windows of its split window factors; what they reach beyond
// the tensor, and the holes of windows with phases, are `fill` (undefined where null). `strided`:
// of windows of one element only those elements that the strides take.
Fetched FetchWindows(const LocalOp& local, int index, const Windows& windows, ir::Value* fill,
                     bool strided = false);

}  // namespace shardway::spmd
