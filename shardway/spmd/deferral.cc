#include "shardway/spmd/deferral.h"

#include <algorithm>

#include "shardway/ir/trip_count.h"
#include "shardway/spmd/reduction_of.h"

namespace shardway::spmd {
namespace {

constexpr double kDefaultTrips = 16;
constexpr int kLongestWay = 16;  // operators looked at on the way to an accumulator

// Of these one operand may be partial, of additions both must be.
bool MayBeLinear(const ir::Op& op) {
  switch (op.kind) {
    case ir::OpKind::kAdd:
    case ir::OpKind::kSubtract:
    case ir::OpKind::kNegate:
    case ir::OpKind::kMultiply:
    case ir::OpKind::kDivide:
    case ir::OpKind::kTranspose:
    case ir::OpKind::kReshape:
      return true;
    case ir::OpKind::kReduce:
      return op.results.size() == 1 && IsZero(op.operand(1)) &&
             ReductionOf(*op.regions[0]) == collective::Reduction::kSum;
    default:
      return false;
  }
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

Deferral::Deferral(const ir::Module& module) : uses_(module.num_values()) {
  Walk(*module.main()->body);
}

void Deferral::Walk(const ir::Region& region) {
  for (const ir::Op* op : region.ops) {
    for (const ir::Value* v : op->operands) {
      uses_[v->id].user = op;
      ++uses_[v->id].count;
    }
    for (const ir::Region* inner : op->regions) Walk(*inner);
    if (op->kind == ir::OpKind::kWhile) FindAccumulators(*op);
  }
}

void Deferral::FindAccumulators(const ir::Op& loop) {
  const ir::Region& body = *loop.regions[1];
  const std::vector<ir::Value*>& next = body.terminator()->operands;
  for (size_t i = 0; i < next.size(); ++i) {
    const ir::Op* add = next[i]->def;
    const ir::Value* state = body.arguments[i];
    if (add == nullptr || add->kind != ir::OpKind::kAdd || add->parent != &body) continue;
    if (uses_[next[i]->id].count != 1 || uses_[state->id].count != 1) continue;
    if (uses_[loop.regions[0]->arguments[i]->id].count != 0) continue;
    const int added = add->operand(0) == state ? 1 : 0;
    if (add->operand(1 - added) != state) continue;
    accumulators_[add] = {&loop, static_cast<int>(i), added};
  }
}

bool Deferral::MayWait(const ir::Value* v) const {
  const Uses& uses = uses_[v->id];
  return v->def != nullptr && uses.count == 1 && uses.user->parent == v->def->parent &&
         MayBeLinear(*uses.user);
}

const Deferral::Accumulator* Deferral::FindAccumulator(const ir::Op* add) const {
  auto it = accumulators_.find(add);
  return it != accumulators_.end() ? &it->second : nullptr;
}

double Deferral::Share(const ir::Value* v) const {
  for (int steps = 0; steps < kLongestWay && MayWait(v); ++steps) {
    const ir::Op* user = uses_[v->id].user;
    if (const Accumulator* a = FindAccumulator(user))
      return 1 / ir::TripCount(*a->loop).value_or(kDefaultTrips);
    v = user->result();
  }
  return 1;
}

}  // namespace shardway::spmd
