#include "shardway/sharding/hlo_sharding.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shardway::sharding {
namespace {

// ---- xla.OpSharding, field numbers of xla_data.proto ----
constexpr int kTypeField = 1;
constexpr int kTileDimensionsField = 3;
constexpr int kReplicateOnLastTileDimField = 6;
constexpr int kIotaReshapeDimsField = 9;
constexpr int kIotaTransposePermField = 10;
constexpr int kTypeOther = 3;

void PutVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void PutInteger(std::string& out, int field, uint64_t value) {
  PutVarint(out, field << 3);
  PutVarint(out, value);
}

void PutPacked(std::string& out, int field, const std::vector<int64_t>& values) {
  std::string packed;
  for (int64_t v : values) PutVarint(packed, v);
  PutVarint(out, field << 3 | 2);
  PutVarint(out, packed.size());
  out += packed;
}

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
      result.maximal = true;
      return result;
    case HloSharding::Kind::kManual:
      result.manual = mesh.all();
      return result;
    case HloSharding::Kind::kUnknown:
      result.open = ~uint32_t{0};
      return result;
    case HloSharding::Kind::kTuple:
      return absl::InvalidArgumentError("a tuple of shardings on one tensor");
    case HloSharding::Kind::kTiled:
      break;
  }
  const int tile_rank = static_cast<int>(sharding.tile.size() - sharding.subgroups.size());
  if (tile_rank != rank) {
    return absl::InvalidArgumentError(absl::StrCat("a sharding with tiles for ", tile_rank,
                                                   " dimensions on a tensor of rank ", rank));
  }
  auto strides = TileStrides(sharding);
  auto atoms = strides ? mesh.AtomsOf(*strides) : std::nullopt;
  if (!atoms) {
    return absl::UnimplementedError("a sharding whose order of devices is no pattern of mesh axes");
  }
  int64_t tiles = 1;
  for (int64_t t : sharding.tile) tiles *= t;
  if (tiles != mesh.num_devices()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a sharding over ", tiles, " devices in a program for ", mesh.num_devices()));
  }
  size_t at = 0;
  for (size_t i = 0; i < sharding.tile.size(); ++i) {
    AxisList taken;
    if (!TakeTile(sharding.tile[i], *atoms, mesh, at, taken)) {
      return absl::UnimplementedError("a sharding whose tiles do not fall on mesh axes");
    }
    if (static_cast<int>(i) < rank) {
      result.sharding.dims[i] = std::move(taken);
    } else if (sharding.subgroups[i - rank] == HloSharding::Subgroup::kManual) {
      result.manual |= ToSet(taken);
    }
  }
  return result;
}

std::string ToOpShardingBytes(const Sharding& sharding, const Mesh& mesh) {
  std::string out;
  const AxisSet used = sharding.used();
  if (used == 0) return out;  // REPLICATED is the default of every field
  std::vector<int64_t> tile;
  std::vector<uint8_t> order;
  for (const AxisList& axes : sharding.dims) {
    tile.push_back(mesh.SizeOf(axes));
    order.insert(order.end(), axes.begin(), axes.end());
  }
  const AxisList rest = mesh.ToList(mesh.all() & ~used);
  if (!rest.empty()) {
    tile.push_back(mesh.SizeOf(rest));
    order.insert(order.end(), rest.begin(), rest.end());
  }
  // Atoms that stay neighbours become one dimension of the reshaped iota, as XLA writes it.
  std::vector<int> run_of(mesh.num_atoms());
  std::vector<int64_t> reshape;
  for (int a = 0; a < mesh.num_atoms(); ++a) {
    auto here = std::find(order.begin(), order.end(), a);
    const bool joined = a > 0 && here != order.begin() && *std::prev(here) == a - 1;
    if (!joined) reshape.push_back(1);
    reshape.back() *= mesh.size(a);
    run_of[a] = static_cast<int>(reshape.size()) - 1;
  }
  std::vector<int64_t> permutation;
  for (uint8_t a : order) {
    if (permutation.empty() || permutation.back() != run_of[a]) permutation.push_back(run_of[a]);
  }
  PutInteger(out, kTypeField, kTypeOther);
  PutPacked(out, kTileDimensionsField, tile);
  if (!rest.empty()) PutInteger(out, kReplicateOnLastTileDimField, 1);
  PutPacked(out, kIotaReshapeDimsField, reshape);
  PutPacked(out, kIotaTransposePermField, permutation);
  return out;
}

}  // namespace shardway::sharding
