// Collectives over axes inside islands (or hosts) and axes across them, in steps:
//
//   all-reduce       reduce-scatter inside → all-reduce of one part across → all-gather inside
//   all-gather       all-gather across → all-gather inside
//   reduce-scatter   reduce-scatter inside → reduce-scatter across
//
// A device sends as much as with one call, but across islands only one part in as many as the axes
// inside have places: 2 islands of 4 devices send 1/4 of a sum's operand each way over the dearer
// connection, not 7/8 of it twice. What more calls cost than one decides for small operands.
#pragma once

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

enum class IslandSteps {
  kAuto,  // where it pays by Mesh::PriceOf: never for hosts that share one machine's memory, where
          // what crosses was found to cost no more, and three calls are three meetings
  kAlways,  // wherever some of its axes are dearer than the others
  kNever,
};

// The cheaper way, in the unit of costs.h: of an all-reduce of `bytes` over `axes`; of an
// all-gather to `whole_bytes`, or a reduce-scatter of as many.
double AllReduceCost(const Mesh& mesh, double bytes, AxisSet axes);
double GatherCost(const Mesh& mesh, double whole_bytes, AxisSet axes);

// In `region` and all regions inside, before the sites are numbered: calls over mesh axes, the
// user's own too, that cost less in steps.
void CrossInSteps(Emitter& emitter, ir::Region* region, IslandSteps when);

}  // namespace shardway::spmd
