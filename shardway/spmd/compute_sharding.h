// How one operator is computed: the split of its factors that costs least, given how its operands
// are and how its results are wanted (GSPMD §4.4-4.5: batch, free and contracting dimensions, any
// mix of them).
#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "shardway/spmd/liveness.h"
#include "shardway/spmd/op_rule.h"
#include "shardway/spmd/program.h"

namespace shardway::spmd {

// Sources that cost nothing (iotas, splats): they are made where they are used, as they are wanted.
bool IsCheapSource(const ir::Op& op);

// What is known of the operator's values beside their shardings (LocalValues::CostOf, MayStay).
struct AboutValues {
  // What having operand `index` under a sharding costs.
  absl::FunctionRef<double(size_t index, const Sharding& want)> operand_cost;
  // Whether result `index`, computed under a sharding, may be left so.
  absl::FunctionRef<bool(size_t index, const Sharding& here)> may_stay;
};

// Candidates start from what each tensor already has and take what they can from the others; the
// price of one is what resharding operands and results and combining partial results would send,
// plus the work. `share`: how often partial results are combined for each time they are computed
// (less than 1 where a loop sums them up). A result that nobody uses (`live`) is wanted as it
// comes.
struct ComputeSharding {
  FactorAxes axes;
  double cost = 0;
};
ComputeSharding ChooseComputeSharding(const ir::Op& op, const OpRule& rule,
                                      const std::vector<Sharding>& operands,
                                      const std::vector<Sharding>& results, const Liveness& live,
                                      const Mesh& mesh, const AboutValues& values,
                                      double share = 1);

// The axes of all split reduction factors.
AxisSet PendingAxes(const OpRule& rule, const FactorAxes& axes);

}  // namespace shardway::spmd
