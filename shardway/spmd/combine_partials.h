// Partial results of a reduction that no collective knows (argmax, any body of several operands):
// brought together, and reduced once more by the same body.
//
//   gathered    every device gets all partial results                   (n - 1) S
//   scattered   every device gets its part of all of them, by all-to-all; the results are then
//               gathered, unless they are wanted scattered               (n - 1) / n (S + S)
#pragma once

#include "absl/status/statusor.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {

// `partial` of each result, over `axes`, in their order. Where the results are wanted scattered
// they are returned so, and `local.result_shardings` says it.
LocalResults CombineByBody(LocalOp& local, std::vector<ir::Value*> partial, const AxisList& axes);

// What that costs for a result of which a device's partial result has `bytes`; `to_split` says
// whether it is wanted scattered over the axes.
double CombineByBodyCost(double bytes, const Mesh& mesh, const AxisList& axes, bool to_split);

// The dimension along which `to` splits a result further over just these axes; -1 when none.
int ScatteredDim(const ir::Type& whole, const Sharding& from, const Sharding& to,
                 const AxisList& axes, const Mesh& mesh);

}  // namespace shardway::spmd
