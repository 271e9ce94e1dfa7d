#include "shardway/spmd/propagation.h"

#include <deque>

#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

using sharding::Contains;
using sharding::IsPrefix;

bool HasBodies(const ir::Op& op) {  // regions that run programs, not reducers
  return op.kind == ir::OpKind::kWhile || op.kind == ir::OpKind::kIf ||
         op.kind == ir::OpKind::kCase;
}

// The manual part of a dimension is its major factor: whole [m·r] ↔ shard [r].
OpRule ConversionRule(const ir::Op& op) {
  OpRule rule;
  rule.preserves_shape = true;
  const bool to_shard = op.String("call_target_name") == kFullToShard;
  const ir::Type& full = to_shard ? op.operand(0)->type : op.result()->type;
  const ir::Type& shard = to_shard ? op.result()->type : op.operand(0)->type;
  TensorFactors small = rule.NewTensor(shard);
  TensorFactors large(small.size());
  for (size_t d = 0; d < small.size(); ++d) {
    const int64_t parts = shard.dims[d] == 0 ? 1 : full.dims[d] / shard.dims[d];
    if (parts > 1) large[d].push_back(rule.AddFactor(parts));
    large[d].push_back(small[d][0]);
  }
  rule.operands.push_back(to_shard ? large : small);
  rule.results.push_back(to_shard ? small : large);
  return rule;
}

// Tensors and how their dimensions correspond.
struct Node {
  const OpRule* rule;
  std::vector<const ir::Value*> tensors;
  std::vector<const TensorFactors*> factors;
};

class Propagator {
 public:
  Propagator(const Program& program, const Rules& rules)
      : program_(program),
        mesh_(program.mesh),
        rules_(rules),
        shardings_(program.module->num_values()),
        closed_(program.module->num_values(), 0),
        barred_(program.manual) {
    barred_.resize(program.module->num_values(), 0);
    Visit(*program.module->main()->body);
    for (const auto& [id, annotation] : program.annotations) {
      shardings_[id] = annotation.sharding;
      closed_[id] = ~annotation.open;
      barred_[id] |= annotation.forbidden;
    }
    Connect();
  }

  std::vector<Sharding> Run() {
    if (mesh_.num_atoms() > 0) {
      Fixpoint(/*all=*/false);
      Fixpoint(/*all=*/true);
    }
    return std::move(shardings_);
  }

 private:
  void Visit(const ir::Region& region) {
    for (const ir::Value* v : region.arguments) Start(v);
    for (const ir::Op* op : region.ops) {
      for (const ir::Value* v : op->results) Start(v);
      if (HasBodies(*op)) {
        for (const ir::Region* body : op->regions) Visit(*body);
        TieBodies(*op);
      } else if (op->kind == ir::OpKind::kOptimizationBarrier) {
        // As many independent identities: one node each, a barrier may hold hundreds of values.
        for (size_t i = 0; i < op->results.size(); ++i) Tie({op->operands[i], op->results[i]});
      } else if (op->kind == ir::OpKind::kReturn || op->kind == ir::OpKind::kFuncReturn) {
        continue;
      } else {
        AddOp(*op);
      }
    }
  }

  void Start(const ir::Value* v) { shardings_[v->id] = Sharding::Replicated(v->type.rank()); }

  void AddOp(const ir::Op& op) {
    Node node{&rules_.Of(&op), {}, {}};
    int ranks = 0;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      node.tensors.push_back(op.operands[i]);
      node.factors.push_back(&node.rule->operands[i]);
      ranks += op.operands[i]->type.rank();
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      node.tensors.push_back(op.results[i]);
      node.factors.push_back(&node.rule->results[i]);
      ranks += op.results[i]->type.rank();
    }
    if (ranks > 0) nodes_.push_back(std::move(node));
  }

  void Tie(std::vector<const ir::Value*> values) {
    if (!values[0]->type.is_tensor() || values[0]->type.rank() == 0) return;
    OpRule& rule = ties_.emplace_back();
    rule.preserves_shape = true;
    rule.results.push_back(rule.NewTensor(values[0]->type));
    Node node{&rule, std::move(values), {}};
    node.factors.assign(node.tensors.size(), &rule.results[0]);
    nodes_.push_back(std::move(node));
  }

  void TieBodies(const ir::Op& op) {
    for (size_t i = 0; i < op.results.size(); ++i) {
      std::vector<const ir::Value*> values = {op.results[i]};
      if (op.kind == ir::OpKind::kWhile) {
        values.push_back(op.operands[i]);
        for (const ir::Region* body : op.regions) values.push_back(body->arguments[i]);
        values.push_back(op.regions[1]->terminator()->operands[i]);
      } else {
        for (const ir::Region* body : op.regions) values.push_back(body->terminator()->operands[i]);
      }
      Tie(std::move(values));
    }
  }

  void Connect() {
    first_.assign(shardings_.size() + 1, 0);
    for (const Node& node : nodes_) {
      for (const ir::Value* v : node.tensors) ++first_[v->id + 1];
    }
    for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    touching_.resize(first_.back());
    std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      for (const ir::Value* v : nodes_[n].tensors) touching_[next[v->id]++] = n;
    }
  }

  void Fixpoint(bool all) {
    std::deque<uint32_t> queue;
    std::vector<bool> queued(nodes_.size());
    auto push = [&](uint32_t n) {
      if (queued[n] || !(all || nodes_[n].rule->preserves_shape)) return;
      queued[n] = true;
      queue.push_back(n);
    };
    for (uint32_t n = 0; n < nodes_.size(); ++n) push(n);
    while (!queue.empty()) {
      const uint32_t n = queue.front();
      queue.pop_front();
      queued[n] = false;
      Step(nodes_[n], [&](const ir::Value* changed) {
        for (uint32_t i = first_[changed->id]; i < first_[changed->id + 1]; ++i) push(touching_[i]);
      });
    }
  }

  template <typename Changed>
  void Step(const Node& node, const Changed& changed) {
    const size_t num_factors = node.rule->factors.size();
    // The longest list of axes that any tensor has for each factor; of two that disagree the first
    // stays.
    offered_.assign(num_factors, {});
    bool any = false;
    for (size_t t = 0; t < node.tensors.size(); ++t) {
      const Sharding& sharding = shardings_[node.tensors[t]->id];
      if (sharding.replicated()) continue;
      any = true;
      mine_.assign(num_factors, {});
      ProjectFactors(*node.rule, *node.factors[t], sharding, mesh_, mine_);
      for (size_t f = 0; f < num_factors; ++f) {
        if (IsPrefix(offered_[f], mine_[f])) offered_[f] = mine_[f];
      }
    }
    if (!any) return;
    for (size_t t = 0; t < node.tensors.size(); ++t) Take(node, t, changed);
  }

  template <typename Changed>
  void Take(const Node& node, size_t t, const Changed& changed) {
    const ir::Value* v = node.tensors[t];
    const TensorFactors& tensor = *node.factors[t];
    Sharding& sharding = shardings_[v->id];
    mine_.assign(node.rule->factors.size(), {});
    ProjectFactors(*node.rule, tensor, sharding, mesh_, mine_);
    AxisSet used = sharding.used() | barred_[v->id];
    bool more = false;
    for (size_t d = 0; d < tensor.size(); ++d) {
      if (d < 32 && ((closed_[v->id] >> d) & 1)) continue;
      for (int f : tensor[d]) {
        const Factor& factor = node.rule->factors[f];
        if (factor.kind == Factor::Kind::kReplicated || !IsPrefix(mine_[f], offered_[f])) continue;
        int64_t parts = mesh_.SizeOf(mine_[f]);
        for (size_t i = mine_[f].size(); i < offered_[f].size(); ++i) {
          const uint8_t atom = offered_[f][i];
          parts *= mesh_.size(atom);
          if (Contains(used, atom) || parts > factor.size) break;
          mine_[f].push_back(atom);
          used |= AxisSet{1} << atom;
          more = true;
        }
      }
    }
    if (!more) return;
    const Sharding next = FromFactors(*node.rule, tensor, mine_, mesh_);
    bool grew = false;
    for (size_t d = 0; d < tensor.size(); ++d) {
      if (next.dims[d].size() > sharding.dims[d].size() &&
          IsPrefix(sharding.dims[d], next.dims[d])) {
        sharding.dims[d] = next.dims[d];
        grew = true;
      }
    }
    if (grew) changed(v);
  }

  const Program& program_;
  const Mesh& mesh_;
  const Rules& rules_;
  std::vector<Sharding> shardings_;
  std::vector<uint32_t> closed_;  // dimensions that may not be split further
  std::vector<AxisSet> barred_;
  std::deque<OpRule> ties_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> first_;  // nodes that touch value v: touching_[first_[v] … first_[v + 1])
  std::vector<uint32_t> touching_;
  FactorAxes offered_, mine_;  // scratch
};

}  // namespace

Rules::Rules(const Program& program) { Add(*program.module->main()->body, program); }

void Rules::Add(const ir::Region& region, const Program& program) {
  for (const ir::Op* op : region.ops) {
    if (op->kind == ir::OpKind::kReturn || op->kind == ir::OpKind::kFuncReturn) continue;
    if (op->kind == ir::OpKind::kOptimizationBarrier) continue;
    if (HasBodies(*op)) {
      for (const ir::Region* body : op->regions) Add(*body, program);
      continue;
    }
    OpRule rule = program.conversions.contains(op)                 ? ConversionRule(*op)
                  : op->kind == ir::OpKind::kSdyShardingConstraint ? PointwiseRule(*op)
                                                                   : RoomOf(op->kind).rule(*op);
    rules_.emplace(op, std::make_unique<OpRule>(std::move(rule)));
  }
}

std::vector<Sharding> Propagate(const Program& program, const Rules& rules) {
  return Propagator(program, rules).Run();
}

}  // namespace shardway::spmd
