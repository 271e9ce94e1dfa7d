#include "shardway/spmd/compute_sharding.h"

#include <algorithm>
#include <numeric>

#include "shardway/spmd/combine_plan.h"
#include "shardway/spmd/costs.h"
#include "shardway/spmd/reshard.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

using sharding::Contains;
using sharding::IsPrefix;
using sharding::LocalType;

constexpr size_t kMaxSeeds = 6;  // of operators with many operands
// How often a result that may stay split is gathered after all.
constexpr double kNeededWhole = 0.5;

bool IsCheap(const ir::Value* v) { return v->def != nullptr && IsCheapSource(*v->def); }

struct Tensor {
  size_t index;  // among the operands, or the results
  const ir::Type* type;
  const TensorFactors* factors;
  const Sharding* sharding;
  bool is_result;
  bool is_free;  // made as it is wanted, or wanted by nobody
};

class Chooser {
 public:
  Chooser(const ir::Op& op, const OpRule& rule, const std::vector<Sharding>& operands,
          const std::vector<Sharding>& results, const Liveness& live, const Mesh& mesh,
          const AboutValues& values, double share)
      : op_(op), rule_(rule), mesh_(mesh), values_(values), share_(share) {
    for (size_t i = 0; i < operands.size(); ++i) {
      tensors_.push_back({i, &op.operands[i]->type, &rule.operands[i], &operands[i], false,
                          IsCheap(op.operands[i])});
    }
    for (size_t i = 0; i < results.size(); ++i) {
      tensors_.push_back({i, &op.results[i]->type, &rule.results[i], &results[i], true,
                          !live.IsUsed(op.results[i])});
    }
    FindLoops();
  }

  ComputeSharding Choose() {
    FactorAxes axes(rule_.factors.size());
    std::vector<size_t> order(tensors_.size());
    std::iota(order.begin(), order.end(), 0);
    bool agreed = true;
    for (size_t t : order) agreed &= Merge(t, axes);
    Normalize(axes);
    if (agreed && Free(axes)) {
      const double cost = Cost(axes);
      return {std::move(axes), cost};
    }
    // Largest tensors first: moving them costs most.
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return Bytes(tensors_[a]) > Bytes(tensors_[b]); });
    FactorAxes best(rule_.factors.size());
    double best_cost = Cost(best);
    auto price = [&](FactorAxes candidate) {
      const double cost = Cost(candidate);
      if (cost < best_cost) {
        best_cost = cost;
        best = std::move(candidate);
      }
    };
    auto consider = [&](FactorAxes candidate) {
      const FactorAxes asked = candidate;
      Normalize(candidate);
      if (candidate != asked) Move(asked, candidate, price);
      if (op_.kind == ir::OpKind::kSort && PendingAxes(rule_, candidate) != 0) {
        // The first of every part come together, or whole rows do.
        FactorAxes whole = candidate;
        for (size_t f = 0; f < whole.size(); ++f) {
          if (rule_.factors[f].kind == Factor::Kind::kReduction) whole[f].clear();
        }
        Move(candidate, whole, price);
      }
      if (rule_.Exchanges(candidate, mesh_)) {
        // Edges may cost more than the whole, or than moving the split elsewhere.
        FactorAxes still = candidate;
        for (size_t f = 0; f < still.size(); ++f) {
          if (rule_.Exchanges(static_cast<int>(f), candidate, mesh_)) still[f].clear();
        }
        Move(candidate, still, price);
        price(std::move(still));
      }
      price(std::move(candidate));
    };
    consider(std::move(axes));
    for (size_t seed = 0; seed < std::min(order.size(), kMaxSeeds); ++seed) {
      FactorAxes candidate(rule_.factors.size());
      Merge(order[seed], candidate);
      for (size_t t : order) Merge(t, candidate);
      consider(std::move(candidate));
      // Only what it has itself: an axis of another tensor may cost more than it saves.
      FactorAxes alone(rule_.factors.size());
      Merge(order[seed], alone);
      consider(std::move(alone));
    }
    return {std::move(best), best_cost};
  }

 private:
  // Factors that meet in no tensor, not even by way of others, are loops of their own (a collective
  // of several values): each may use all axes. Not so where partial results are combined: the rows
  // of a table and the lookups into it are loops over the same elements.
  void FindLoops() {
    loop_of_.resize(rule_.factors.size());
    for (const Factor& f : rule_.factors) {
      if (f.kind == Factor::Kind::kReduction) return;  // one loop
    }
    std::iota(loop_of_.begin(), loop_of_.end(), 0);
    auto root = [&](int f) {
      while (loop_of_[f] != f) f = loop_of_[f] = loop_of_[loop_of_[f]];
      return f;
    };
    for (const Tensor& tensor : tensors_) {
      int first = -1;
      for (const auto& dim : *tensor.factors) {
        for (int f : dim) {
          if (first < 0) first = root(f);
          loop_of_[root(f)] = first;
        }
      }
    }
    for (size_t f = 0; f < loop_of_.size(); ++f) loop_of_[f] = root(static_cast<int>(f));
  }

  double Bytes(const Tensor& t) const {
    return t.type->is_tensor()
               ? static_cast<double>(LocalType(*t.type, *t.sharding, mesh_).num_bytes())
               : 0;
  }

  // Adds what tensor `t` has, where that contradicts nothing; false when something did.
  bool Merge(size_t t, FactorAxes& axes) const {
    const Tensor& tensor = tensors_[t];
    if (tensor.sharding->replicated() || (tensor.is_result && tensor.is_free)) return true;
    FactorAxes mine(rule_.factors.size());
    bool agreed = true;
    ProjectFactors(rule_, *tensor.factors, *tensor.sharding, mesh_, mine, &agreed);
    std::vector<AxisSet> used_in_loop(axes.size());
    for (size_t f = 0; f < axes.size(); ++f) used_in_loop[loop_of_[f]] |= sharding::ToSet(axes[f]);
    for (size_t f = 0; f < mine.size(); ++f) {
      if (IsPrefix(mine[f], axes[f])) continue;
      AxisSet& used = used_in_loop[loop_of_[f]];
      if (!IsPrefix(axes[f], mine[f])) {
        agreed = false;
        continue;
      }
      for (size_t i = axes[f].size(); i < mine[f].size(); ++i) {
        if (Contains(used, mine[f][i])) {
          agreed = false;
          break;
        }
        used |= AxisSet{1} << mine[f][i];
        axes[f].push_back(mine[f][i]);
      }
    }
    return agreed;
  }

  // Drops what cannot be: split factors that need replication, and minor factors of a dimension
  // whose major ones are not split in full.
  void Normalize(FactorAxes& axes) const {
    for (size_t f = 0; f < axes.size(); ++f) {
      if (rule_.factors[f].kind == Factor::Kind::kReplicated) axes[f].clear();
      if (!rule_.factors[f].even) continue;
      while (rule_.factors[f].size % mesh_.SizeOf(axes[f]) != 0) axes[f].pop_back();
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (const Tensor& tensor : tensors_) {
        for (size_t d = 0; d < tensor.factors->size(); ++d) {
          const auto& factors = (*tensor.factors)[d];
          if (factors.size() < 2) continue;
          bool full = true;  // all the factors before are split in full
          for (int f : factors) {
            const int64_t size = rule_.factors[f].size;
            const bool whole = rule_.factors[f].border && f == factors[0];
            while (!axes[f].empty() && (!full || (!whole && size % mesh_.SizeOf(axes[f]) != 0))) {
              axes[f].pop_back();
              changed = true;
            }
            full = full && mesh_.SizeOf(axes[f]) == size;
          }
        }
      }
    }
  }

  // Axes that a factor had to give up may split another one (a sort along a split dimension: its
  // rows are sorted elsewhere, by an all-to-all): every pass-through factor is tried, of those that
  // do not divide only the longest.
  template <typename Price>
  void Move(const FactorAxes& asked, const FactorAxes& candidate, const Price& price) const {
    AxisList dropped;
    for (size_t f = 0; f < asked.size(); ++f) {
      for (size_t i = candidate[f].size(); i < asked[f].size(); ++i) dropped.push_back(asked[f][i]);
    }
    AxisSet used = 0;
    for (const AxisList& axes : candidate) used |= sharding::ToSet(axes);
    if (dropped.empty() || (used & sharding::ToSet(dropped)) != 0 ||
        __builtin_popcountll(sharding::ToSet(dropped)) != static_cast<int>(dropped.size())) {
      return;
    }
    int longest = -1;
    int64_t longest_left = 1;  // one element can't be split
    auto move_to = [&](size_t f) {
      FactorAxes moved = candidate;
      moved[f].insert(moved[f].end(), dropped.begin(), dropped.end());
      FactorAxes normal = moved;
      Normalize(normal);
      if (normal == moved) price(std::move(moved));
    };
    for (size_t f = 0; f < asked.size(); ++f) {
      if (rule_.factors[f].kind != Factor::Kind::kPassThrough) continue;
      const int64_t parts = mesh_.SizeOf(candidate[f]) * mesh_.SizeOf(dropped);
      if (rule_.factors[f].size % parts == 0) {
        move_to(f);
        continue;
      }
      const int64_t left = sharding::CeilDiv(rule_.factors[f].size, mesh_.SizeOf(candidate[f]));
      if (left > longest_left) {
        longest = static_cast<int>(f);
        longest_left = left;
      }
    }
    if (longest >= 0) move_to(longest);
  }

  // Whether everything is as it must be already.
  bool Free(const FactorAxes& axes) const {
    if (PendingAxes(rule_, axes) != 0 || rule_.Exchanges(axes, mesh_)) return false;
    for (const Tensor& t : tensors_) {
      if (!t.is_free && FromFactors(rule_, *t.factors, axes, mesh_) != *t.sharding) return false;
    }
    return true;
  }

  double Cost(const FactorAxes& axes) const {
    const AxisSet pending = PendingAxes(rule_, axes);
    double cost = Work(axes);
    bool combined = false;
    if (rule_.Exchanges(axes, mesh_)) cost += RoomOf(op_.kind).exchange(op_, rule_, axes, mesh_);
    for (const Tensor& t : tensors_) {
      if (!t.type->is_tensor() || t.type->rank() == 0) {
        if (t.is_result && pending != 0 && !combined) {
          cost += share_ * CostOver({kCollectivePrice, 0}, mesh_, pending);
          combined = true;
        }
        continue;
      }
      const Sharding here = FromFactors(rule_, *t.factors, axes, mesh_);
      if (t.is_free) continue;
      if (!t.is_result) {
        cost += values_.operand_cost(t.index, here);
      } else if (pending == 0) {
        const double after = ReshardCost(*t.type, here, *t.sharding, mesh_);
        cost += values_.may_stay(t.index, here) ? kNeededWhole * after : after;
      } else {
        cost += share_ * CombineCost(op_, rule_, *t.type, here, *t.sharding, pending, mesh_);
        // The results of one operator travel together.
        if (combined) cost -= share_ * CostOver({kCollectivePrice, 0}, mesh_, pending);
        combined = true;
      }
    }
    return cost;
  }

  double Work(const FactorAxes& axes) const {
    if (op_.kind == ir::OpKind::kReshape) return 0;
    double elements = 1;
    for (size_t f = 0; f < axes.size(); ++f) {
      if (rule_.factors[f].cut_for >= 0) continue;  // counted with its window
      elements *=
          static_cast<double>(sharding::CeilDiv(rule_.factors[f].size, mesh_.SizeOf(axes[f])));
    }
    const bool multiplies =
        op_.kind == ir::OpKind::kDotGeneral || op_.kind == ir::OpKind::kConvolution;
    if (multiplies) return kBytesPerFlop * elements;
    // Factors that are not shared by all tensors say nothing together: count the largest tensor.
    double largest = 0;
    for (const Tensor& t : tensors_) {
      if (!t.type->is_tensor() || !IsTouched(t)) continue;
      const Sharding here = FromFactors(rule_, *t.factors, axes, mesh_);
      largest =
          std::max(largest, static_cast<double>(LocalType(*t.type, here, mesh_).num_elements()) /
                                PartsCut(t, axes));
    }
    return kBytesPerElement * largest;
  }

  // Of what a device holds it touches one of so many parts.
  double PartsCut(const Tensor& t, const FactorAxes& axes) const {
    double parts = 1;
    for (const auto& factors : *t.factors) {
      for (int f : factors) {
        if (f != rule_.WindowOf(f))
          parts *= static_cast<double>(mesh_.SizeOf(axes[rule_.WindowOf(f)]));
      }
    }
    return parts;
  }

  // Of what is only looked into, or written into, most elements are left as they are.
  bool IsTouched(const Tensor& t) const {
    switch (op_.kind) {
      case ir::OpKind::kSlice:
      case ir::OpKind::kDynamicSlice:
      case ir::OpKind::kGather:
        return t.is_result;
      case ir::OpKind::kDynamicUpdateSlice:
        return !t.is_result && t.index == 1;
      default:
        return true;
    }
  }

  const ir::Op& op_;
  const OpRule& rule_;
  const Mesh& mesh_;
  const AboutValues values_;
  const double share_;
  std::vector<Tensor> tensors_;
  std::vector<int> loop_of_;  // by factor
};

}  // namespace

bool IsCheapSource(const ir::Op& op) {
  if (op.kind == ir::OpKind::kIota) return true;
  if (op.kind == ir::OpKind::kBroadcastInDim) return op.operand(0)->type.rank() == 0;
  if (op.kind != ir::OpKind::kConstant) return false;
  const ir::Attribute* value = op.Find("value");
  const auto* constant = value != nullptr ? value->get_if<ir::Constant>() : nullptr;
  return constant != nullptr && (constant->splat || constant->type.rank() == 0);
}

AxisSet PendingAxes(const OpRule& rule, const FactorAxes& axes) {
  AxisSet pending = 0;
  for (size_t f = 0; f < axes.size(); ++f) {
    if (rule.factors[f].kind == Factor::Kind::kReduction) pending |= sharding::ToSet(axes[f]);
  }
  return pending;
}

ComputeSharding ChooseComputeSharding(const ir::Op& op, const OpRule& rule,
                                      const std::vector<Sharding>& operands,
                                      const std::vector<Sharding>& results, const Liveness& live,
                                      const Mesh& mesh, const AboutValues& values, double share) {
  return Chooser(op, rule, operands, results, live, mesh, values, share).Choose();
}

}  // namespace shardway::spmd
