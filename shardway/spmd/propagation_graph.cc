#include "shardway/spmd/propagation_graph.h"

#include <utility>

namespace shardway::spmd {

PropagationGraph::PropagationGraph(const Program& program, const Rules& rules) : rules_(rules) {
  Visit(*program.module->main()->body);
  for (const auto& group : program.groups) Tie(nullptr, group);
  Connect(program.module->num_values());
}

void PropagationGraph::Visit(const ir::Region& region) {
  for (const ir::Op* op : region.ops) {
    if (HasBodies(*op)) {
      for (const ir::Region* body : op->regions) Visit(*body);
      TieBodies(*op);
    } else if (op->kind == ir::OpKind::kOptimizationBarrier) {
      // As many independent identities: one node each, a barrier may hold hundreds of values.
      for (size_t i = 0; i < op->results.size(); ++i) Tie(op, {op->operands[i], op->results[i]});
    } else if (op->kind != ir::OpKind::kReturn && op->kind != ir::OpKind::kFuncReturn) {
      AddOp(*op);
    }
  }
}

void PropagationGraph::AddOp(const ir::Op& op) {
  PropagationNode node{&op, &rules_.Of(&op), PriorityOf(op), {}, {}, op.operands.size()};
  if (node.level() == kNeverPropagates) return;
  int ranks = 0;
  const auto add = [&](const ir::Value* v, const TensorFactors& factors) {
    node.tensors.push_back(v);
    node.factors.push_back(&factors);
    ranks += v->type.rank();
  };
  for (size_t i = 0; i < op.operands.size(); ++i) add(op.operands[i], node.rule->operands[i]);
  for (size_t i = 0; i < op.results.size(); ++i) add(op.results[i], node.rule->results[i]);
  if (ranks > 0) nodes_.push_back(std::move(node));
}

void PropagationGraph::Tie(const ir::Op* op, std::vector<const ir::Value*> values) {
  if (!values[0]->type.is_tensor() || values[0]->type.rank() == 0) return;
  OpRule& rule = ties_.emplace_back();
  rule.results.push_back(rule.NewTensor(values[0]->type));
  PropagationNode node{op, &rule, {}, std::move(values), {}, 0};
  node.factors.assign(node.tensors.size(), &rule.results[0]);
  nodes_.push_back(std::move(node));
}

void PropagationGraph::TieBodies(const ir::Op& op) {
  for (size_t i = 0; i < op.results.size(); ++i) {
    std::vector<const ir::Value*> values = {op.results[i]};
    if (op.kind == ir::OpKind::kWhile) {
      values.push_back(op.operands[i]);
      for (const ir::Region* body : op.regions) values.push_back(body->arguments[i]);
      values.push_back(op.regions[1]->terminator()->operands[i]);
    } else {
      for (const ir::Region* body : op.regions) values.push_back(body->terminator()->operands[i]);
    }
    Tie(&op, std::move(values));
  }
}

void PropagationGraph::Connect(size_t num_values) {
  first_.assign(num_values + 1, 0);
  for (const PropagationNode& node : nodes_) {
    for (const ir::Value* v : node.tensors) ++first_[v->id + 1];
  }
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  touching_.resize(first_.back());
  std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    for (const ir::Value* v : nodes_[n].tensors) touching_[next[v->id]++] = n;
  }
}

}  // namespace shardway::spmd
