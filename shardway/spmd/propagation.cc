#include "shardway/spmd/propagation.h"

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <optional>
#include <set>

#include "shardway/spmd/propagation_graph.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

using sharding::Contains;
using sharding::IsPrefix;

// The manual part of a dimension is its major factor: whole [m·r] ↔ shard [r].
OpRule ConversionRule(const ir::Op& op) {
  OpRule rule;
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

constexpr size_t kMaxRounds = 32;  // a program may name as many priorities as it has dimensions

class Propagator {
 public:
  Propagator(const Program& program, const Rules& rules, Decisions* decisions)
      : program_(program),
        decisions_(decisions),
        mesh_(program.mesh),
        graph_(program, rules),
        shardings_(program.module->num_values()),
        closed_(program.module->num_values(), 0),
        late_(program.module->num_values(), 0),
        barred_(program.manual) {
    barred_.resize(program.module->num_values(), 0);
    if (decisions != nullptr) decisions->assign(program.module->num_values(), {});
    Start(*program.module->main()->body);
    for (const auto& [id, annotation] : program.annotations) {
      shardings_[id] = annotation.sharding;
      closed_[id] = ~annotation.open;
      barred_[id] |= annotation.forbidden;
      for (int64_t p : annotation.priorities) rounds_.insert(p);
    }
    // What enters or leaves a manual region is split over the region's axes as annotated, no
    // further.
    for (const auto& [op, axes] : program.conversions) {
      const bool to_shard = op->String("call_target_name") == kFullToShard;
      barred_[(to_shard ? op->operand(0) : op->result())->id] |= axes;
    }
    // The last round takes all that is left.
    while (rounds_.size() > kMaxRounds) rounds_.erase(std::prev(rounds_.end(), 2));
  }

  std::vector<Sharding> Run() {
    if (mesh_.num_atoms() == 0) return std::move(shardings_);
    Spread();
    Agree(*program_.module->main()->body);
    return std::move(shardings_);
  }

 private:
  void Spread() {
    queued_.resize(graph_.nodes().size());
    // The user's own priorities outrank those of operators.
    for (const int64_t round : rounds_) {
      SetLate(round);
      for (level_ = 0; level_ < kPropagationLevels; ++level_) {
        // What earlier levels reached stays at its fixed point until something changes; a new round
        // begins everywhere.
        for (uint32_t n = 0; n < graph_.nodes().size(); ++n) {
          const PropagationNode& node = graph_.nodes()[n];
          const bool begins =
              node.priority.to_operands == level_ || node.priority.to_results == level_;
          if (begins) Push(n);
        }
        Fixpoint();
      }
    }
  }

  // A loop's condition has the state as the body has it, also where inside and outside are split in
  // ways that do not go together: the body's stands, the condition took the other one.
  void Agree(const ir::Region& region) {
    for (const ir::Op* op : region.ops) {
      if (!HasBodies(*op)) continue;
      for (const ir::Region* body : op->regions) Agree(*body);
      if (op->kind != ir::OpKind::kWhile) continue;
      for (size_t i = 0; i < op->operands.size(); ++i) {
        const uint32_t condition = op->regions[0]->arguments[i]->id;
        const uint32_t body = op->regions[1]->arguments[i]->id;
        if (shardings_[condition] == shardings_[body]) continue;
        shardings_[condition] = shardings_[body];
        if (decisions_ != nullptr) (*decisions_)[condition] = (*decisions_)[body];
      }
    }
  }

  void Start(const ir::Region& region) {
    for (const ir::Value* v : region.arguments) Start(v);
    for (const ir::Op* op : region.ops) {
      for (const ir::Value* v : op->results) Start(v);
      if (!HasBodies(*op)) continue;
      for (const ir::Region* body : op->regions) Start(*body);
    }
  }
  void Start(const ir::Value* v) { shardings_[v->id] = Sharding::Replicated(v->type.rank()); }

  // Dimensions of a later round neither give nor take; their axes are taken all the same.
  void SetLate(int64_t round) {
    if (rounds_.size() == 1) return;
    for (const auto& [id, annotation] : program_.annotations) {
      late_[id] = 0;
      for (size_t d = 0; d < annotation.priorities.size() && d < 32; ++d) {
        if (annotation.priorities[d] > round) late_[id] |= uint32_t{1} << d;
      }
    }
  }

  void Push(uint32_t n) {
    if (queued_[n]) return;
    queued_[n] = true;
    queues_[graph_.nodes()[n].level()].push_back(n);
  }

  // Earlier levels always go first: what a contraction has brought to a value passes on through all
  // elementwise operators before the next contraction decides.
  void Fixpoint() {
    for (int level = 0; level < kPropagationLevels;) {
      std::deque<uint32_t>& queue = queues_[level];
      if (queue.empty()) {
        ++level;
        continue;
      }
      const uint32_t n = queue.front();
      queue.pop_front();
      queued_[n] = false;
      Step(graph_.nodes()[n]);
      level = 0;
    }
  }

  // What the node's tensors offer each other. Where two disagree about a factor, that of the finer
  // tensor counts (more parts), then that of the larger one, then the first: for all factors alike,
  // so that the halves of two shardings are not mixed into one that nobody has.
  void Step(const PropagationNode& node) {
    order_.clear();
    for (size_t t = 0; t < node.tensors.size(); ++t) {
      const Sharding& sharding = shardings_[node.tensors[t]->id];
      if (!sharding.replicated()) order_.push_back({mesh_.SizeOf(sharding.used()), t});
    }
    if (order_.empty()) return;
    std::stable_sort(order_.begin(), order_.end(), [&](const auto& a, const auto& b) {
      if (a.first != b.first) return a.first > b.first;
      return Elements(node, a.second) > Elements(node, b.second);
    });
    const size_t num_factors = node.rule->factors.size();
    offered_.assign(num_factors, {});
    offering_.assign(num_factors, 0);
    for (const auto& [parts, t] : order_) {
      Project(node, t, late_[node.tensors[t]->id]);
      for (size_t f = 0; f < num_factors; ++f) {
        if (mine_[f].size() <= offered_[f].size() || !IsPrefix(offered_[f], mine_[f])) continue;
        offered_[f] = mine_[f];
        offering_[f] = t;
      }
    }
    for (int f : node.rule->blocked) offered_[f].clear();
    for (size_t t = 0; t < node.tensors.size(); ++t) {
      if (node.LevelOf(t) <= level_) Take(node, t);
    }
  }

  static int64_t Elements(const PropagationNode& node, size_t t) {
    const ir::Type& type = node.tensors[t]->type;
    return type.is_tensor() ? type.num_elements() : 0;
  }

  // The axes of each factor in tensor `t`, dimensions in `without` left out, into mine_.
  void Project(const PropagationNode& node, size_t t, uint32_t without) {
    mine_.assign(node.rule->factors.size(), {});
    const Sharding& sharding = shardings_[node.tensors[t]->id];
    if (without == 0) return ProjectFactors(*node.rule, *node.factors[t], sharding, mesh_, mine_);
    Sharding early = sharding;
    for (int d = 0; d < early.rank() && d < 32; ++d) {
      if (((without >> d) & 1) != 0) early.dims[d].clear();
    }
    ProjectFactors(*node.rule, *node.factors[t], early, mesh_, mine_);
  }

  void Take(const PropagationNode& node, size_t t) {
    const ir::Value* v = node.tensors[t];
    const TensorFactors& tensor = *node.factors[t];
    Sharding& sharding = shardings_[v->id];
    Project(node, t, 0);
    AxisSet used = sharding.used() | barred_[v->id];
    const uint32_t closed = closed_[v->id] | late_[v->id];
    bool more = false;
    auto take_from = [&](std::optional<size_t> tensor_offering) {
      for (size_t d = 0; d < tensor.size(); ++d) {
        if (d < 32 && ((closed >> d) & 1) != 0) continue;
        for (int f : tensor[d]) {
          if (tensor_offering && offering_[f] != *tensor_offering) continue;
          const Factor& factor = node.rule->factors[f];
          more |= TakeFactor(factor, f, factor.window ? v->type.dims[d] : factor.size, used);
        }
      }
    };
    // Where two factors of a result would take the same axis, that of the operand which comes first
    // has it: with the other that one would be moved.
    if (t >= node.num_operands) {
      for (const auto& [parts, offering] : order_) take_from(offering);
    }
    take_from(std::nullopt);
    if (!more) return;
    const Sharding next = FromFactors(*node.rule, tensor, mine_, mesh_);
    bool grew = false;
    for (size_t d = 0; d < tensor.size(); ++d) {
      if (next.dims[d].size() > sharding.dims[d].size() &&
          IsPrefix(sharding.dims[d], next.dims[d])) {
        if (decisions_ != nullptr) Remember(node, t, d, next.dims[d]);
        sharding.dims[d] = next.dims[d];
        grew = true;
      }
    }
    if (!grew) return;
    for (uint32_t n : graph_.Touching(v)) {
      if (graph_.nodes()[n].level() <= level_) Push(n);
    }
  }

  // Adds to mine_[f] what is offered for it and free; whether that is anything.
  bool TakeFactor(const Factor& factor, int f, int64_t size, AxisSet& used) {
    if (factor.kind == Factor::Kind::kReplicated || !IsPrefix(mine_[f], offered_[f])) return false;
    int64_t parts = mesh_.SizeOf(mine_[f]);
    bool more = false;
    for (size_t i = mine_[f].size(); i < offered_[f].size(); ++i) {
      const uint8_t atom = offered_[f][i];
      parts *= mesh_.size(atom);
      if (Contains(used, atom) || (factor.window && parts > size)) break;
      mine_[f].push_back(atom);
      used |= AxisSet{1} << atom;
      more = true;
    }
    return more;
  }

  // Dimension `d` of tensor `t` is about to grow to `axes`.
  void Remember(const PropagationNode& node, size_t t, size_t d, const AxisList& axes) {
    const ir::Value* v = node.tensors[t];
    const AxisList& had = shardings_[v->id].dims[d];
    for (int f : (*node.factors[t])[d]) {
      Decision decision{static_cast<int>(d), {}, node.op, node.tensors[offering_[f]]};
      for (uint8_t atom : mine_[f]) {
        const bool taken = std::find(axes.begin() + had.size(), axes.end(), atom) != axes.end();
        if (taken) decision.axes.push_back(atom);
      }
      if (!decision.axes.empty()) (*decisions_)[v->id].push_back(std::move(decision));
    }
  }

  const Program& program_;
  Decisions* decisions_;
  const Mesh& mesh_;
  PropagationGraph graph_;
  std::vector<Sharding> shardings_;
  std::vector<uint32_t> closed_;  // dimensions that may not be split further
  std::vector<uint32_t> late_;    // dimensions whose round has not come yet
  std::vector<AxisSet> barred_;
  std::set<int64_t> rounds_ = {0};
  int level_ = 0;
  std::array<std::deque<uint32_t>, kPropagationLevels> queues_;  // by the level of a node
  std::vector<bool> queued_;
  FactorAxes offered_, mine_;                      // scratch
  std::vector<size_t> offering_;                   // the tensor that each offer comes from
  std::vector<std::pair<int64_t, size_t>> order_;  // parts of a tensor, and its place in the node
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
    const bool identity = op->kind == ir::OpKind::kSdyShardingConstraint ||
                          op->kind == ir::OpKind::kSdyPropagationBarrier;
    OpRule rule = program.conversions.contains(op) ? ConversionRule(*op)
                  : identity                       ? PointwiseRule(*op)
                                                   : RoomOf(op->kind).rule(*op);
    rules_.emplace(op, std::make_unique<OpRule>(std::move(rule)));
  }
}

bool HasBodies(const ir::Op& op) {
  return op.kind == ir::OpKind::kWhile || op.kind == ir::OpKind::kIf ||
         op.kind == ir::OpKind::kCase;
}

std::vector<Sharding> Propagate(const Program& program, const Rules& rules, Decisions* decisions) {
  return Propagator(program, rules, decisions).Run();
}

}  // namespace shardway::spmd
