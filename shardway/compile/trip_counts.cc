#include "shardway/compile/trip_counts.h"

#include <memory>

#include "shardway/collective/spec.h"
#include "shardway/ir/trip_count.h"

namespace shardway::compile {
namespace {

void Walk(const ir::Region& region, const Trips& around, std::vector<Trips>& sites) {
  for (const ir::Op* op : region.ops) {
    if (const auto site = SiteOf(*op); site && *site < static_cast<int>(sites.size())) {
      sites[*site] = around;
    }
    Trips inside = around;
    if (op->kind == ir::OpKind::kWhile) {
      const auto trips = ir::TripCount(*op);
      inside.count *= trips.value_or(1);
      inside.bounded &= trips.has_value();
    }
    for (const ir::Region* inner : op->regions) Walk(*inner, inside, sites);
  }
}

}  // namespace

std::optional<int> SiteOf(const ir::Op& op) {
  if (op.kind != ir::OpKind::kCustomCall) {
    const int64_t channel = op.Int("channel_id");
    if (channel < 1) return std::nullopt;
    return static_cast<int>(channel - 1);
  }
  if (op.String("call_target_name") != collective::kCustomCallTarget) return std::nullopt;
  const ir::Attribute* config = op.Find("backend_config");
  const auto* dict =
      config != nullptr ? config->get_if<std::shared_ptr<const ir::AttrDict>>() : nullptr;
  const ir::Attribute* site = dict != nullptr ? ir::Find(**dict, "site") : nullptr;
  const auto* number = site != nullptr ? site->get_if<ir::TypedInt>() : nullptr;
  if (number == nullptr || number->value < 0) return std::nullopt;
  return static_cast<int>(number->value);
}

std::vector<Trips> TripsOfSites(const ir::Module& module, size_t sites) {
  std::vector<Trips> trips(sites);
  Walk(*module.main()->body, {}, trips);
  return trips;
}

}  // namespace shardway::compile
