#include "shardway/sharding/hlo_sharding.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/sharding/axis_placement.h"

namespace shardway::sharding {
namespace {

// Tile entries eat atoms, major to minor, from the strides of the device order: entry t takes atoms
// whose sizes multiply to t.
bool TakeTile(int64_t count, const AxisList& atoms, const Mesh& mesh, size_t& at, AxisList& taken) {
  while (count > 1) {
    if (at >= atoms.size() || count % mesh.size(atoms[at]) != 0) return false;
    count /= mesh.size(atoms[at]);
    taken.push_back(atoms[at++]);
  }
  return true;
}

// The tiles as axes: on the atoms in their own order where that is a pattern of strides.
absl::StatusOr<AxisPlacement> Place(const HloSharding& sharding, const Mesh& mesh) {
  AxisPlacement placement;
  const auto strides = TileStrides(sharding);
  const auto atoms = strides ? mesh.AtomsOf(*strides) : std::nullopt;
  size_t at = 0;
  for (size_t i = 0; atoms && i < sharding.tile.size(); ++i) {
    AxisList taken;
    if (!TakeTile(sharding.tile[i], *atoms, mesh, at, taken)) break;
    placement.axes.push_back(std::move(taken));
  }
  if (placement.axes.size() == sharding.tile.size()) return placement;
  return PlaceAxes(sharding.tile, DevicesOf(sharding), mesh);
}

}  // namespace

std::optional<std::vector<Stride>> TileStrides(const HloSharding& sharding) {
  if (sharding.kind != HloSharding::Kind::kTiled) return std::vector<Stride>();
  std::vector<Stride> order;
  if (sharding.devices.empty()) {
    order = IotaStrides(sharding.reshape, sharding.permutation);
  } else {
    auto found = FindStrides(sharding.devices);
    if (!found || sharding.devices[0] != 0) return std::nullopt;
    order = *std::move(found);
  }
  // Cut the order at the tiles' borders too.
  std::vector<Stride> cut;
  size_t next = 0;
  int64_t left = order.empty() ? 1 : order[0].size;
  for (int64_t count : sharding.tile) {
    while (count > 1) {
      while (left == 1 && ++next < order.size()) left = order[next].size;
      if (next >= order.size()) return std::nullopt;
      const int64_t part = std::min(count, left);
      if (count % part != 0 || left % part != 0) return std::nullopt;
      left /= part;
      count /= part;
      cut.push_back({part, order[next].stride * left});
    }
  }
  return cut;
}

absl::StatusOr<Annotation> ToAnnotation(const HloSharding& sharding, int rank, const Mesh& mesh) {
  Annotation result;
  result.sharding = Sharding::Replicated(rank);
  switch (sharding.kind) {
    case HloSharding::Kind::kReplicated:
      return result;
    case HloSharding::Kind::kMaximal:
      if (mesh.num_devices() > 1 &&
          (sharding.device < 0 || sharding.device >= mesh.num_devices())) {
        return absl::InvalidArgumentError(absl::StrCat("a sharding puts all on device ",
                                                       sharding.device, " of a program for ",
                                                       mesh.num_devices(), " devices"));
      }
      result.maximal = true;
      return result;
    case HloSharding::Kind::kManual:
      result.manual = mesh.all();
      return result;
    case HloSharding::Kind::kUnreduced:
      result.unreduced = result.forbidden = mesh.all();
      return result;
    case HloSharding::Kind::kUnknown:
      result.open = ~uint32_t{0};
      return result;
    case HloSharding::Kind::kTuple:
      return absl::InvalidArgumentError("a tuple of shardings on one tensor");
    case HloSharding::Kind::kTiled:
      break;
  }
  if (mesh.num_devices() == 1) return result;
  const int tile_rank = static_cast<int>(sharding.tile.size() - sharding.subgroups.size());
  if (tile_rank != rank) {
    return absl::InvalidArgumentError(absl::StrCat("a sharding with tiles for ", tile_rank,
                                                   " dimensions on a tensor of rank ", rank));
  }
  int64_t tiles = 1;
  for (int64_t t : sharding.tile) tiles *= t;
  if (tiles != mesh.num_devices()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a sharding over ", tiles, " devices in a program for ", mesh.num_devices()));
  }
  SHARDWAY_ASSIGN_OR_RETURN(AxisPlacement placement, Place(sharding, mesh));
  for (size_t i = 0; i < sharding.tile.size(); ++i) {
    AxisList& taken = placement.axes[i];
    if (static_cast<int>(i) < rank) {
      result.sharding.dims[i] = std::move(taken);
    } else if (sharding.subgroups[i - rank] == HloSharding::Subgroup::kManual) {
      result.manual |= ToSet(taken);
    } else if (sharding.subgroups[i - rank] == HloSharding::Subgroup::kUnreduced) {
      result.unreduced |= ToSet(taken);
    }
  }
  result.forbidden = result.unreduced;
  if (!result.sharding.replicated() || result.unreduced != 0) {
    result.order = std::move(placement.order);
  }
  if (result.manual != 0 && result.order != nullptr) {
    return absl::UnimplementedError(
        "a manual region whose order of devices is no transposition of that of the program's mesh; "
        "give both meshes the same devices in the same order");
  }
  return result;
}

HloSharding ToHloSharding(const Sharding& sharding, const Mesh& mesh, AxisSet manual,
                          AxisSet unreduced) {
  HloSharding result;
  const AxisSet used = sharding.used();
  if (used == 0 && manual == 0 && unreduced == 0) return result;
  if (used == 0 && (manual == mesh.all() || unreduced == mesh.all())) {
    result.kind = manual != 0 ? HloSharding::Kind::kManual : HloSharding::Kind::kUnreduced;
    return result;
  }
  result.kind = HloSharding::Kind::kTiled;
  std::vector<uint8_t> order;
  const auto add = [&](const AxisList& axes) {
    result.tile.push_back(mesh.SizeOf(axes));
    order.insert(order.end(), axes.begin(), axes.end());
  };
  for (const AxisList& axes : sharding.dims) add(axes);
  const auto add_subgroup = [&](AxisSet axes, HloSharding::Subgroup kind) {
    if (axes == 0) return;
    add(mesh.ToList(axes));
    result.subgroups.push_back(kind);
  };
  add_subgroup(manual, HloSharding::Subgroup::kManual);
  add_subgroup(unreduced, HloSharding::Subgroup::kUnreduced);
  add_subgroup(mesh.all() & ~used & ~manual & ~unreduced, HloSharding::Subgroup::kReplicated);
  // Atoms that stay neighbours become one dimension of the reshaped iota, as XLA writes it.
  std::vector<int> run_of(mesh.num_atoms());
  for (int a = 0; a < mesh.num_atoms(); ++a) {
    auto here = std::find(order.begin(), order.end(), a);
    const bool joined = a > 0 && here != order.begin() && *std::prev(here) == a - 1;
    if (!joined) result.reshape.push_back(1);
    result.reshape.back() *= mesh.size(a);
    run_of[a] = static_cast<int>(result.reshape.size()) - 1;
  }
  for (uint8_t a : order) {
    if (result.permutation.empty() || result.permutation.back() != run_of[a]) {
      result.permutation.push_back(run_of[a]);
    }
  }
  if (std::is_sorted(result.permutation.begin(), result.permutation.end())) {
    result.permutation.clear();
  }
  return result;
}

std::string ToOpShardingBytes(const Sharding& sharding, const Mesh& mesh, const DeviceOrder& order,
                              AxisSet unreduced) {
  HloSharding tiled = ToHloSharding(sharding, mesh, /*manual=*/0, unreduced);
  if (order != nullptr && tiled.kind == HloSharding::Kind::kTiled) {
    tiled.devices = DevicesOf(tiled);
    for (int64_t& device : tiled.devices) device = (*order)[device];
    tiled.reshape = tiled.permutation = {};
  }
  return ToProto(tiled);
}

}  // namespace shardway::sharding
