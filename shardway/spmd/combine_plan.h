// How partial results are brought together, and what that costs.
#pragma once

#include <vector>

#include "shardway/spmd/op_rule.h"
#include "shardway/spmd/program.h"

namespace shardway::spmd {

// How partial results (each device of `pending` axes holds a part of the sum) become `to`:
// scattered sums where the target splits a dimension over pending axes, then one all-reduce of the
// rest.
struct CombinePlan {
  struct Scatter {
    int dim;
    AxisList axes;
  };
  std::vector<Scatter> scatters;
  AxisList reduced;
  Sharding after;  // what the value has then
};
CombinePlan PlanCombine(const ir::Type& type, const Sharding& from, const Sharding& to,
                        AxisSet pending, const Mesh& mesh);

// What combining result `type` of `op` costs, computed under `from` in parts over `pending` axes
// and wanted under `to` (costs.h).
double CombineCost(const ir::Op& op, const OpRule& rule, const ir::Type& type, const Sharding& from,
                   const Sharding& to, AxisSet pending, const Mesh& mesh);

}  // namespace shardway::spmd
