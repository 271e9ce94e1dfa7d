#include "shardway/sharding/sdy_notation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace shardway::sharding {
namespace {

// Neighbours in the row-major order of the devices.
bool IsDigit(const AxisList& atoms) {
  for (size_t i = 1; i < atoms.size(); ++i) {
    if (atoms[i] != atoms[i - 1] + 1) return false;
  }
  return !atoms.empty();
}

}  // namespace

SdyNotation::SdyNotation(const Mesh& mesh, std::string mesh_name)
    : mesh_(mesh), name_(std::move(mesh_name)) {
  AxisSet named = 0;
  for (const auto& [name, atoms] : mesh.names()) {
    const bool taken = std::any_of(axes_.begin(), axes_.end(),
                                   [&, &n = name](const auto& axis) { return axis.first == n; });
    if (taken || !IsDigit(atoms) || (named & ToSet(atoms)) != 0) continue;
    named |= ToSet(atoms);
    axes_.emplace_back(name, atoms);
  }
  int next = 0;
  for (int a = 0; a < mesh.num_atoms(); ++a) {
    if (Contains(named, a)) continue;
    axes_.emplace_back(absl::StrCat("_", next++), AxisList{static_cast<uint8_t>(a)});
  }
  std::sort(axes_.begin(), axes_.end(),
            [](const auto& a, const auto& b) { return a.second[0] < b.second[0]; });
  for (const auto& [name, atoms] : axes_) sdy_.axes.push_back({name, mesh.SizeOf(atoms)});
}

std::vector<ir::SdyAxisRef> SdyNotation::Axes(const AxisList& axes) const {
  std::vector<ir::SdyAxisRef> refs;
  for (size_t i = 0; i < axes.size();) {
    for (const auto& [name, atoms] : axes_) {
      auto at = std::find(atoms.begin(), atoms.end(), axes[i]);
      if (at == atoms.end()) continue;
      const int64_t before = mesh_.SizeOf(AxisList(atoms.begin(), at));
      int64_t size = 1;
      size_t n = 0;
      for (; i < axes.size() && at != atoms.end() && axes[i] == *at; ++at, ++i, ++n) {
        size *= mesh_.size(*at);
      }
      ir::SdyAxisRef& ref = refs.emplace_back();
      ref.name = name;
      if (n < atoms.size()) ref.sub_axis = {before, size};
      break;
    }
  }
  return refs;
}

ir::SdySharding SdyNotation::Write(const Sharding& sharding, uint32_t open) const {
  ir::SdySharding result;
  result.mesh_name = name_;
  for (int d = 0; d < sharding.rank(); ++d) {
    ir::SdyDimSharding& dim = result.dims.emplace_back();
    dim.axes = Axes(sharding.dims[d]);
    dim.closed = d >= 32 || ((open >> d) & 1) == 0;
  }
  return result;
}

}  // namespace shardway::sharding
