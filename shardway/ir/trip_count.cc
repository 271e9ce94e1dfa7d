#include "shardway/ir/trip_count.h"

#include <algorithm>

namespace shardway::ir {

std::optional<double> TripCount(const Op& loop) {
  constexpr double kMaxTrips = 1e9;
  for (const Op* op : loop.regions[0]->ops) {
    if (op->kind != OpKind::kCompare || op->operand(1)->def == nullptr) continue;
    const Attribute* value = op->operand(1)->def->Find("value");
    const auto* constant = value != nullptr ? value->get_if<Constant>() : nullptr;
    if (constant == nullptr || !IsInteger(constant->type.element) || constant->type.rank() != 0)
      continue;
    return std::clamp(static_cast<double>(constant->Ints()[0]), 1.0, kMaxTrips);
  }
  return std::nullopt;
}

}  // namespace shardway::ir
