#include "shardway/ir/bytecode/mesh_groups.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shardway::ir::bytecode {
namespace {

constexpr int64_t kMaxDevices = 1 << 20;

// A part of a mesh axis: its size, and how far its neighbours are apart in the mesh's order.
struct Part {
  int64_t size;
  int64_t stride;
};

// Where a reference takes its `size` ways out of an axis: behind the first `pre`.
struct Cut {
  int64_t pre;
  int64_t size;
};

int64_t StrideOf(const SdyMesh& mesh, size_t axis) {
  int64_t stride = 1;
  for (size_t i = axis + 1; i < mesh.axes.size(); ++i) stride *= mesh.axes[i].size;
  return stride;
}

absl::Status BadAxis(std::string_view name) {
  return absl::InvalidArgumentError(
      absl::StrCat("replica groups: the mesh axis \"", std::string(name),
                   "\" does not exist, is used twice or is cut unevenly"));
}

// All positions of `parts`, row-major, as offsets into the mesh's order.
std::vector<int64_t> Offsets(const std::vector<Part>& parts) {
  std::vector<int64_t> offsets = {0};
  for (const Part& part : parts) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * part.size);
    for (const int64_t offset : offsets) {
      for (int64_t i = 0; i < part.size; ++i) next.push_back(offset + i * part.stride);
    }
    offsets = std::move(next);
  }
  return offsets;
}

}  // namespace

absl::StatusOr<Constant> ExpandMeshAxes(const SdyMesh& mesh, const std::vector<SdyAxisRef>& axes) {
  int64_t devices = 1;
  for (const SdyMesh::Axis& axis : mesh.axes) {
    if (axis.size <= 0 || axis.size > kMaxDevices / devices) {
      return absl::InvalidArgumentError("replica groups: the mesh has no sensible size");
    }
    devices *= axis.size;
  }
  if (!mesh.device_ids.empty() && static_cast<int64_t>(mesh.device_ids.size()) != devices) {
    return absl::InvalidArgumentError("replica groups: the mesh lists too few or many devices");
  }

  std::vector<Part> inside;
  std::vector<std::vector<Cut>> cuts(mesh.axes.size());
  for (const SdyAxisRef& axis : axes) {
    const auto it = std::find_if(mesh.axes.begin(), mesh.axes.end(),
                                 [&](const SdyMesh::Axis& a) { return a.name == axis.name; });
    if (it == mesh.axes.end()) return BadAxis(axis.name);
    const auto index = static_cast<size_t>(it - mesh.axes.begin());
    const auto [pre, size] = axis.sub_axis.value_or(std::pair<int64_t, int64_t>(1, it->size));
    if (pre < 1 || size < 1 || pre > it->size || size > it->size / pre ||
        it->size % (pre * size) != 0) {
      return BadAxis(axis.name);
    }
    cuts[index].push_back({pre, size});
    inside.push_back({size, StrideOf(mesh, index) * (it->size / (pre * size))});
  }

  std::vector<Part> outside;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const int64_t size = mesh.axes[i].size;
    const int64_t stride = StrideOf(mesh, i);
    std::sort(cuts[i].begin(), cuts[i].end(),
              [](const Cut& a, const Cut& b) { return a.pre < b.pre; });
    int64_t done = 1;  // ways of this axis, major ones first, that are in a part already
    for (const Cut& cut : cuts[i]) {
      if (cut.pre % done != 0) return BadAxis(mesh.axes[i].name);
      if (cut.pre > done) outside.push_back({cut.pre / done, stride * (size / cut.pre)});
      done = cut.pre * cut.size;
    }
    if (done < size) outside.push_back({size / done, stride});
  }

  const std::vector<int64_t> members = Offsets(inside);
  const std::vector<int64_t> groups = Offsets(outside);
  std::vector<int64_t> ids;
  ids.reserve(devices);
  for (const int64_t group : groups) {
    for (const int64_t member : members) {
      const int64_t position = group + member;
      ids.push_back(mesh.device_ids.empty() ? position : mesh.device_ids[position]);
    }
  }
  const int64_t dims[] = {static_cast<int64_t>(groups.size()),
                          static_cast<int64_t>(members.size())};
  return Constant::FromInts(Type::Tensor(ElementType::kI64, dims), ids);
}

}  // namespace shardway::ir::bytecode
