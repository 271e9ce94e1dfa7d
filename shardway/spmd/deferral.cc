#include "shardway/spmd/deferral.h"

#include <algorithm>
#include <utility>

#include "shardway/ir/trip_count.h"
#include "shardway/spmd/linearity.h"
#include "shardway/spmd/reduction_of.h"

namespace shardway::spmd {
namespace {

constexpr double kDefaultTrips = 16;
constexpr int kLongestWay = 16;  // operators looked at on the way to an accumulator or a constraint

bool IsWidening(const ir::Op& op) {
  const ElementType from = op.operand(0)->type.element, to = op.result()->type.element;
  return IsFloat(from) && IsFloat(to) && ElementBits(from) <= ElementBits(to);
}

// Where the user wants parts; whether it really does depends on its operands (PartialSums).
bool MayWorkOnParts(ir::OpKind kind) {
  return LinearityOf(kind).in != LinearIn::kNothing && kind != ir::OpKind::kReduce;
}

}  // namespace

bool IsZero(const ir::Value* v) {
  while (v->def != nullptr && v->def->kind == ir::OpKind::kBroadcastInDim) v = v->def->operand(0);
  if (v->def == nullptr || v->def->kind != ir::OpKind::kConstant) return false;
  const ir::Attribute* value = v->def->Find("value");
  const auto* constant = value != nullptr ? value->get_if<ir::Constant>() : nullptr;
  return constant != nullptr && (constant->splat || constant->type.rank() == 0) &&
         std::all_of(constant->bytes.begin(), constant->bytes.end(), [](char c) { return c == 0; });
}

Deferral::Deferral(const ir::Module& module, const Uses& uses, std::vector<AxisSet> unreduced)
    : uses_(uses),
      unreduced_(std::move(unreduced)),
      any_unreduced_(std::any_of(unreduced_.begin(), unreduced_.end(),
                                 [](AxisSet axes) { return axes != 0; })) {
  unreduced_.resize(module.num_values());
  Walk(*module.main()->body);
}

AxisSet Deferral::Unreduced(const ir::Value* v) const { return unreduced_[v->id]; }

bool Deferral::IsForParts(const ir::Value* v) const {
  for (int steps = 0; any_unreduced_ && steps < kLongestWay; ++steps) {
    const ir::Op* user = uses_.Only(v);
    if (user == nullptr) return false;
    if (user->kind == ir::OpKind::kSdyShardingConstraint) return Unreduced(user->result()) != 0;
    if (!MayWorkOnParts(user->kind)) return false;
    v = user->result();
  }
  return false;
}

void Deferral::Walk(const ir::Region& region) {
  for (const ir::Op* op : region.ops) {
    for (const ir::Region* inner : op->regions) Walk(*inner);
    if (op->kind == ir::OpKind::kWhile) FindAccumulators(*op);
  }
}

std::optional<Deferral::Accumulator> Deferral::AccumulatorOf(const ir::Op& op,
                                                             const ir::Value* state) const {
  Accumulator found{nullptr, 0, 1, 0};
  switch (op.kind) {
    case ir::OpKind::kAdd:
    case ir::OpKind::kSubtract:
      for (int i = 0; i < (op.kind == ir::OpKind::kAdd ? 2 : 1); ++i) {
        found.state = i;
        found.added = 1 - i;
        if (op.operand(i) == state) return found;
        const ir::Op* scale = op.operand(i)->def;
        if (scale == nullptr || scale->kind != ir::OpKind::kMultiply ||
            scale->parent != op.parent || uses_.Count(scale->result()) != 1) {
          continue;
        }
        if ((scale->operand(0) == state) == (scale->operand(1) == state)) continue;
        found.scale = scale;
        return found;
      }
      return std::nullopt;
    case ir::OpKind::kDynamicUpdateSlice:
      if (op.operand(0) != state) return std::nullopt;
      return found;
    default:
      return std::nullopt;
  }
}

void Deferral::FindAccumulators(const ir::Op& loop) {
  const ir::Region& body = *loop.regions[1];
  const std::vector<ir::Value*>& next = body.terminator()->operands;
  for (size_t i = 0; i < next.size(); ++i) {
    const ir::Op* op = next[i]->def;
    const ir::Value* state = body.arguments[i];
    if (op == nullptr || op->parent != &body) continue;
    if (uses_.Count(next[i]) != 1 || uses_.Count(state) != 1) continue;
    if (uses_.Count(loop.regions[0]->arguments[i]) != 0) continue;
    std::optional<Accumulator> found = AccumulatorOf(*op, state);
    if (!found) continue;
    if (op->kind == ir::OpKind::kDynamicUpdateSlice) {
      const auto rounds = ir::TripCount(loop);
      const auto written = static_cast<double>(op->operand(1)->type.num_elements());
      if (!rounds || *rounds * written < static_cast<double>(state->type.num_elements())) continue;
    }
    found->loop = &loop;
    found->index = static_cast<int>(i);
    accumulators_[op] = *found;
  }
}

bool Deferral::MayBeLinear(const ir::Op& op) const {
  switch (op.kind) {
    case ir::OpKind::kSdyShardingConstraint:
      return true;
    case ir::OpKind::kBroadcastInDim:
      return op.operand(0)->type.num_elements() == op.result()->type.num_elements();
    case ir::OpKind::kConvert:
      // More bytes: only where they are summed less often.
      return IsWidening(op) && Share(op.result()) < 1;
    case ir::OpKind::kDynamicUpdateSlice:
      return FindAccumulator(&op) != nullptr;
    case ir::OpKind::kReduce:
      return op.results.size() == 1 && IsZero(op.operand(1)) &&
             ReductionOf(*op.regions[0]) == collective::Reduction::kSum;
    default:
      return LinearityOf(op.kind).saves_sums;
  }
}

const ir::Op* Deferral::WaitsFor(const ir::Value* v) const {
  const ir::Op* user = v->def == nullptr ? nullptr : uses_.Only(v);
  return user != nullptr && MayBeLinear(*user) ? user : nullptr;
}

const Deferral::Accumulator* Deferral::FindAccumulator(const ir::Op* op) const {
  auto it = accumulators_.find(op);
  return it != accumulators_.end() ? &it->second : nullptr;
}

double Deferral::Share(const ir::Value* v) const {
  if (IsForParts(v)) return 0;
  for (int steps = 0; steps < kLongestWay; ++steps) {
    const ir::Op* user = WaitsFor(v);
    if (user == nullptr) break;
    if (const Accumulator* a = FindAccumulator(user)) {
      const bool stacked = user->kind == ir::OpKind::kDynamicUpdateSlice;  // as many bytes
      return stacked ? 1 : 1 / ir::TripCount(*a->loop).value_or(kDefaultTrips);
    }
    v = user->result();
  }
  return 1;
}

}  // namespace shardway::spmd
