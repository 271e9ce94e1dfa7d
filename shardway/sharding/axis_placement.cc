#include "shardway/sharding/axis_placement.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shardway::sharding {
namespace {

// Atoms for every axis, of the right sizes: where a row-major mesh of these sizes has them if the
// atoms allow that, otherwise the first free ones.
std::optional<std::vector<AxisList>> ChooseAtoms(absl::Span<const int64_t> sizes,
                                                 const Mesh& mesh) {
  std::vector<AxisList> axes;
  int64_t stride = mesh.num_devices();
  for (int64_t size : sizes) {
    stride /= size;
    auto atoms = mesh.AtomsOf(std::vector<Stride>{{size, stride}});
    if (!atoms) break;
    axes.push_back(*std::move(atoms));
  }
  if (axes.size() == sizes.size()) return axes;
  axes.assign(sizes.size(), {});
  AxisSet used = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t left = sizes[i];
    for (int a = 0; a < mesh.num_atoms() && left > 1; ++a) {
      if (Contains(used, a) || left % mesh.size(a) != 0) continue;
      used |= AxisSet{1} << a;
      left /= mesh.size(a);
      axes[i].push_back(a);
    }
    if (left > 1) return std::nullopt;
  }
  return axes;
}

// The device at which the atoms put each tile, tiles in row-major order over the axes.
std::vector<int64_t> TileDevices(const std::vector<AxisList>& axes, const Mesh& mesh) {
  std::vector<int64_t> devices = {0};
  for (const AxisList& atoms : axes) {
    for (uint8_t a : atoms) {
      std::vector<int64_t> next;
      next.reserve(devices.size() * mesh.size(a));
      for (int64_t d : devices) {
        for (int64_t i = 0; i < mesh.size(a); ++i) next.push_back(d + i * mesh.stride(a));
      }
      devices = std::move(next);
    }
  }
  return devices;
}

bool IsPermutation(absl::Span<const int64_t> ids, int64_t n) {
  if (static_cast<int64_t>(ids.size()) != n) return false;
  std::vector<bool> named(n);
  for (int64_t id : ids) {
    if (id < 0 || id >= n || named[id]) return false;
    named[id] = true;
  }
  return true;
}

}  // namespace

absl::StatusOr<AxisPlacement> PlaceAxes(absl::Span<const int64_t> sizes,
                                        absl::Span<const int64_t> ids, const Mesh& mesh) {
  const int64_t n = mesh.num_devices();
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (size < 1 || size > n / product) product = n + 1;
    if (product > n) break;
    product *= size;
  }
  if (product != n || (!ids.empty() && !IsPermutation(ids, n))) {
    return absl::InvalidArgumentError(
        absl::StrCat("a mesh of [", absl::StrJoin(sizes, ","), "] over ",
                     ids.empty() ? n : static_cast<int64_t>(ids.size()),
                     " devices, each once, in a program for ", n));
  }
  AxisPlacement placement;
  auto axes = ChooseAtoms(sizes, mesh);
  if (!axes) return absl::InternalError("atoms that do not make up a mesh of their own size");
  placement.axes = *std::move(axes);
  const std::vector<int64_t> put = TileDevices(placement.axes, mesh);
  std::vector<int64_t> order(n);
  bool same = true;
  for (int64_t tile = 0; tile < n; ++tile) {
    order[put[tile]] = ids.empty() ? tile : ids[tile];
    same &= order[put[tile]] == put[tile];
  }
  if (!same) placement.order = std::make_shared<const std::vector<int64_t>>(std::move(order));
  return placement;
}

absl::StatusOr<AxisPlacement> PlaceAxes(const ir::SdyMesh& named, const Mesh& mesh) {
  AxisPlacement placement;
  if (const auto strides = MeshStrides(named)) {
    for (const std::vector<Stride>& axis : *strides) {
      auto atoms = mesh.AtomsOf(axis);
      if (!atoms) break;
      placement.axes.push_back(*std::move(atoms));
    }
    if (placement.axes.size() == named.axes.size()) return placement;
  }
  std::vector<int64_t> sizes;
  for (const auto& axis : named.axes) sizes.push_back(axis.size);
  return PlaceAxes(sizes, named.device_ids, mesh);
}

}  // namespace shardway::sharding
