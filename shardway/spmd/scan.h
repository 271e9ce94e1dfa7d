// Cumulative operators over a split dimension: every part scans its own tile, the parts' totals
// (one row each) are gathered, and each part takes in those before it. Sends n − 1 rows where
// gathering the operand sends n − 1 tiles.
#pragma once

#include <vector>

#include "shardway/spmd/room.h"

namespace shardway::spmd {

// `scans`: the scan of each operand's own tile along `dim`, padding having been the neutral
// element; `init`: the neutral elements; `body` combines (accumulated…, element…). `forward`: from
// the first element on; otherwise from the last one back.
LocalResults JoinScans(Emitter& e, const std::vector<ir::Value*>& scans,
                       const std::vector<ir::Value*>& init, const ir::Region& body, int dim,
                       const AxisList& axes, bool forward);

// What that sends for one operand split so, with the price of the collective.
double ScanCost(const ir::Type& type, const Sharding& sharding, int dim, const Mesh& mesh);

}  // namespace shardway::spmd
