#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardway/sharding/hlo_sharding.h"

namespace shardway::sharding {
namespace {

std::string Order(const HloSharding& s) {
  if (!s.devices.empty()) return absl::StrJoin(s.devices, ",");
  std::string text = absl::StrCat("<=[", absl::StrJoin(s.reshape, ","), "]");
  if (!s.permutation.empty()) {
    absl::StrAppend(&text, "T(", absl::StrJoin(s.permutation, ","), ")");
  }
  return text;
}

std::string Subgroups(const HloSharding& s) {
  using Subgroup = HloSharding::Subgroup;
  if (s.subgroups.empty()) return "";
  if (s.subgroups == std::vector<Subgroup>{Subgroup::kReplicated}) {
    return " last_tile_dim_replicate";
  }
  std::vector<std::string> names;
  for (Subgroup g : s.subgroups) {
    names.emplace_back(g == Subgroup::kManual      ? "manual"
                       : g == Subgroup::kUnreduced ? "unreduced"
                                                   : "replicated");
  }
  return absl::StrCat(" last_tile_dims={", absl::StrJoin(names, ", "), "}");
}

}  // namespace

std::string ToString(const HloSharding& s) {
  switch (s.kind) {
    case HloSharding::Kind::kReplicated:
      return "{replicated}";
    case HloSharding::Kind::kMaximal:
      return absl::StrCat("{maximal device=", s.device, "}");
    case HloSharding::Kind::kManual:
      return "{manual}";
    case HloSharding::Kind::kUnreduced:
      return "{unreduced}";
    case HloSharding::Kind::kUnknown:
      return "{unknown}";
    case HloSharding::Kind::kTuple: {
      std::vector<std::string> elements;
      for (const HloSharding& element : s.elements) elements.push_back(ToString(element));
      return absl::StrCat("{", absl::StrJoin(elements, ", "), "}");
    }
    case HloSharding::Kind::kTiled:
      return absl::StrCat("{devices=[", absl::StrJoin(s.tile, ","), "]", Order(s), Subgroups(s),
                          "}");
  }
  return "";
}

std::vector<int64_t> DevicesOf(const HloSharding& s) {
  if (!s.devices.empty() || s.kind != HloSharding::Kind::kTiled) return s.devices;
  std::vector<int64_t> order = {0};
  for (const Stride& step : IotaStrides(s.reshape, s.permutation)) {
    std::vector<int64_t> next;
    next.reserve(order.size() * step.size);
    for (int64_t id : order) {
      for (int64_t i = 0; i < step.size; ++i) next.push_back(id + i * step.stride);
    }
    order = std::move(next);
  }
  return order;
}

}  // namespace shardway::sharding
