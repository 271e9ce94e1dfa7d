// A program as propagation sees it: nodes, each a rule over the values that it touches.
//
// A node is an operator; a tie between values that must agree (the state of a loop with its
// arguments and results, the results of branches, a value of an optimization_barrier); or a
// sharding group.
#pragma once

#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "shardway/spmd/op_rule.h"
#include "shardway/spmd/operator_priority.h"
#include "shardway/spmd/propagation.h"

namespace shardway::spmd {

struct PropagationNode {
  const ir::Op* op;  // for ties the loop or branch; null for a sharding group
  const OpRule* rule;
  OperatorPriority priority;
  std::vector<const ir::Value*> tensors;  // operands, then results
  std::vector<const TensorFactors*> factors;
  size_t num_operands = 0;

  int level() const { return std::min(priority.to_operands, priority.to_results); }
  int LevelOf(size_t tensor) const {
    return tensor < num_operands ? priority.to_operands : priority.to_results;
  }
};

// Keeps references to the program and its rules.
class PropagationGraph {
 public:
  PropagationGraph(const Program& program, const Rules& rules);

  const std::vector<PropagationNode>& nodes() const { return nodes_; }
  // The nodes that touch a value, as indices.
  absl::Span<const uint32_t> Touching(const ir::Value* v) const {
    return absl::MakeConstSpan(touching_).subspan(first_[v->id], first_[v->id + 1] - first_[v->id]);
  }

 private:
  void Visit(const ir::Region& region);
  void AddOp(const ir::Op& op);
  void Tie(const ir::Op* op, std::vector<const ir::Value*> values);
  void TieBodies(const ir::Op& op);
  void Connect(size_t num_values);

  const Rules& rules_;
  std::deque<OpRule> ties_;
  std::vector<PropagationNode> nodes_;
  std::vector<uint32_t> first_;  // nodes that touch value v: touching_[first_[v] … first_[v + 1])
  std::vector<uint32_t> touching_;
};

}  // namespace shardway::spmd
