#include "shardway/sharding/mesh.h"

#include <algorithm>
#include <bit>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shardway::sharding {
namespace {

constexpr int64_t kMaxDevices = int64_t{1} << 30;

// Cuts are strides at which an axis begins or ends; each must divide the next.
bool Insert(std::set<int64_t>& cuts, int64_t cut) {
  auto above = cuts.lower_bound(cut);
  if (above == cuts.end() || *above % cut != 0) return false;
  if (*above == cut) return true;
  if (cut % *std::prev(above) != 0) return false;
  cuts.insert(above, cut);
  return true;
}

}  // namespace

bool IsPrefix(const AxisList& prefix, const AxisList& list) {
  return prefix.size() <= list.size() && std::equal(prefix.begin(), prefix.end(), list.begin());
}

AxisList CommonPrefix(const AxisList& a, const AxisList& b) {
  AxisList common;
  for (size_t i = 0; i < a.size() && i < b.size() && a[i] == b[i]; ++i) common.push_back(a[i]);
  return common;
}

std::optional<std::vector<Stride>> FindStrides(absl::Span<const int64_t> ids) {
  std::vector<Stride> minor_first;
  std::vector<int64_t> rest(ids.begin(), ids.end());
  while (rest.size() > 1) {
    const int64_t stride = rest[1] - rest[0];
    if (stride <= 0) return std::nullopt;
    size_t run = 2;
    while (run < rest.size() && rest[run] - rest[run - 1] == stride) ++run;
    if (rest.size() % run != 0) return std::nullopt;
    for (size_t begin = 0; begin < rest.size(); begin += run) {
      for (size_t i = 1; i < run; ++i) {
        if (rest[begin + i] - rest[begin] != static_cast<int64_t>(i) * stride) return std::nullopt;
      }
    }
    minor_first.push_back({static_cast<int64_t>(run), stride});
    std::vector<int64_t> heads;
    for (size_t begin = 0; begin < rest.size(); begin += run) heads.push_back(rest[begin]);
    rest = std::move(heads);
  }
  std::reverse(minor_first.begin(), minor_first.end());
  return minor_first;
}

std::vector<Stride> IotaStrides(absl::Span<const int64_t> reshape,
                                absl::Span<const int64_t> permutation) {
  std::vector<Stride> strides(reshape.size());
  int64_t stride = 1;
  for (size_t i = reshape.size(); i-- > 0;) {
    strides[i] = {reshape[i], stride};
    stride *= reshape[i];
  }
  if (permutation.empty()) return strides;
  std::vector<Stride> permuted;
  for (int64_t p : permutation) permuted.push_back(strides[p]);
  return permuted;
}

absl::StatusOr<Mesh> Mesh::Make(int64_t num_devices, absl::Span<const Stride> pieces) {
  if (num_devices < 1 || num_devices > kMaxDevices) {
    return absl::InvalidArgumentError(absl::StrCat("a mesh of ", num_devices, " devices"));
  }
  std::set<int64_t> cuts = {1, num_devices};
  for (const Stride& piece : pieces) {
    if (piece.size <= 1 || piece.stride < 1 || piece.stride * piece.size > num_devices) continue;
    Insert(cuts, piece.stride);
    Insert(cuts, piece.stride * piece.size);
  }
  Mesh mesh;
  mesh.num_devices_ = num_devices;
  for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
    int64_t ratio = *std::next(cut) / *cut;
    int64_t stride = *cut;
    for (int64_t prime = 2; ratio > 1; ++prime) {
      if (prime * prime > ratio) prime = ratio;
      for (; ratio % prime == 0; ratio /= prime, stride *= prime) {
        mesh.atoms_.push_back({prime, stride});
      }
    }
  }
  std::reverse(mesh.atoms_.begin(), mesh.atoms_.end());
  return mesh;
}

int64_t Mesh::SizeOf(const AxisList& axes) const {
  int64_t n = 1;
  for (uint8_t a : axes) n *= atoms_[a].size;
  return n;
}

int64_t Mesh::SizeOf(AxisSet axes) const {
  int64_t n = 1;
  for (; axes != 0; axes &= axes - 1) n *= atoms_[std::countr_zero(axes)].size;
  return n;
}

AxisList Mesh::ToList(AxisSet axes) const {
  AxisList list;
  for (int a = 0; a < num_atoms(); ++a) {
    if (Contains(axes, a)) list.push_back(a);
  }
  return list;
}

std::optional<AxisList> Mesh::AtomsOf(absl::Span<const Stride> strides) const {
  AxisList list;
  for (const Stride& s : strides) {
    int64_t found = 1;
    for (int a = 0; a < num_atoms(); ++a) {
      if (atoms_[a].stride < s.stride || atoms_[a].stride >= s.stride * s.size) continue;
      if (atoms_[a].stride * atoms_[a].size > s.stride * s.size) return std::nullopt;
      if (atoms_[a].stride % s.stride != 0) return std::nullopt;
      found *= atoms_[a].size;
      list.push_back(a);
    }
    if (found != s.size) return std::nullopt;
  }
  return list;
}

void Mesh::SetPlaces(absl::Span<const topology::Place> places, const topology::LinkPrices& prices) {
  prices_ = prices;
  across_hosts_ = across_islands_ = 0;
  const auto count = static_cast<int64_t>(places.size());
  for (int a = 0; a < num_atoms(); ++a) {
    const AxisSet bit = AxisSet{1} << a;
    for (int64_t d = 0; d < count && (across_islands_ & bit) == 0; ++d) {
      const bool first = d / atoms_[a].stride % atoms_[a].size == 0;
      for (int64_t k = 1; first && k < atoms_[a].size; ++k) {
        const int64_t other = d + k * atoms_[a].stride;
        if (other >= count || places[d] == places[other]) continue;
        across_hosts_ |= bit;
        if (places[d].island != places[other].island) across_islands_ |= bit;
      }
    }
  }
}

topology::LinkPrice Mesh::PriceOf(AxisSet axes) const {
  if ((axes & across_islands_) != 0) return prices_.between_islands;
  if ((axes & across_hosts_) != 0) return prices_.between_hosts;
  return {};
}

AxisSet Mesh::DearestOf(AxisSet axes) const {
  if ((axes & across_hosts_) == 0) return 0;
  const topology::LinkPrice dearest = PriceOf(axes);
  AxisSet those = 0;
  for (uint8_t a : ToList(axes)) {
    if (PriceOf(AxisSet{1} << a) == dearest) those |= AxisSet{1} << a;
  }
  return those == axes ? 0 : those;
}

void Mesh::Name(std::string name, AxisList atoms) {
  names_.emplace_back(std::move(name), std::move(atoms));
}

AxisList Mesh::WholeAxes(const AxisList& axes) const {
  if (names_.empty()) return axes;
  size_t whole = 0;
  for (size_t longest = 1; longest > 0; whole += longest) {
    longest = 0;
    for (const auto& [name, atoms] : names_) {
      const bool here = atoms.size() <= axes.size() - whole &&
                        std::equal(atoms.begin(), atoms.end(), axes.begin() + whole);
      if (here) longest = std::max(longest, atoms.size());
    }
  }
  return AxisList(axes.begin(), axes.begin() + whole);
}

std::string Mesh::ToString(const AxisList& axes) const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < axes.size();) {
    size_t best = 0;
    std::string text = absl::StrCat("#", static_cast<int>(axes[i]));
    for (const auto& [name, atoms] : names_) {
      auto at = std::find(atoms.begin(), atoms.end(), axes[i]);
      if (at == atoms.end()) continue;
      size_t n = 0;
      int64_t size = 1;
      int64_t before = SizeOf(AxisList(atoms.begin(), at));
      for (; i + n < axes.size() && at != atoms.end() && axes[i + n] == *at; ++at, ++n) {
        size *= atoms_[*at].size;
      }
      if (n <= best) continue;
      best = n;
      text = n == atoms.size() ? name : absl::StrCat(name, ":(", before, ")", size);
    }
    parts.push_back(std::move(text));
    i += std::max<size_t>(best, 1);
  }
  return absl::StrJoin(parts, ",");
}

std::optional<std::vector<std::vector<Stride>>> MeshStrides(const ir::SdyMesh& mesh) {
  std::vector<std::vector<Stride>> result(mesh.axes.size());
  int64_t stride = 1;
  for (size_t i = mesh.axes.size(); i-- > 0;) {
    const int64_t size = mesh.axes[i].size;
    if (size < 1 || size > kMaxDevices / stride) return std::nullopt;
    result[i] = {{size, stride}};
    stride *= size;
  }
  if (mesh.device_ids.empty()) return result;
  std::vector<bool> named(mesh.device_ids.size());
  for (int64_t id : mesh.device_ids) {
    if (id < 0 || id >= static_cast<int64_t>(named.size()) || named[id]) return std::nullopt;
    named[id] = true;
  }
  if (static_cast<int64_t>(mesh.device_ids.size()) != stride || mesh.device_ids[0] != 0) {
    return std::nullopt;
  }
  // Each axis alone must be a pattern of strides, and the ids their sums.
  std::vector<int64_t> sums = {0};
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const int64_t step = result[i][0].stride;
    std::vector<int64_t> line;
    for (int64_t k = 0; k < mesh.axes[i].size; ++k) line.push_back(mesh.device_ids[k * step]);
    auto strides = FindStrides(line);
    if (!strides) return std::nullopt;
    std::vector<int64_t> next;
    next.reserve(sums.size() * line.size());
    for (int64_t sum : sums) {
      for (int64_t id : line) next.push_back(sum + id);
    }
    sums = std::move(next);
    result[i] = *std::move(strides);
  }
  if (sums != mesh.device_ids) return std::nullopt;
  return result;
}

}  // namespace shardway::sharding
