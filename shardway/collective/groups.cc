#include <algorithm>
#include <cstdint>
#include <vector>

#include "shardway/collective/spec.h"

namespace shardway::collective {

int64_t Groups::num_devices() const {
  int64_t n = 1;
  for (int64_t size : mesh) n *= size;
  return n;
}

int64_t Groups::group_size() const {
  if (!lists.empty()) return static_cast<int64_t>(lists.front().size());
  int64_t n = 1;
  for (int axis : axes) n *= mesh[axis];
  return n;
}

std::vector<int64_t> Groups::MembersOf(int64_t device) const {
  if (!lists.empty()) {
    for (const std::vector<int64_t>& list : lists) {
      if (std::find(list.begin(), list.end(), device) != list.end()) return list;
    }
    return {};
  }
  std::vector<int64_t> stride(mesh.size(), 1);
  for (int i = static_cast<int>(mesh.size()) - 2; i >= 0; --i)
    stride[i] = stride[i + 1] * mesh[i + 1];
  // The member whose coordinates along all group axes are zero; the others are offsets from it.
  int64_t first = device;
  for (int axis : axes) first -= (device / stride[axis]) % mesh[axis] * stride[axis];
  std::vector<int64_t> members = {first};
  for (int axis : axes) {
    std::vector<int64_t> next;
    next.reserve(members.size() * mesh[axis]);
    for (int64_t member : members) {
      for (int64_t i = 0; i < mesh[axis]; ++i) next.push_back(member + i * stride[axis]);
    }
    members = std::move(next);
  }
  return members;
}

std::vector<std::pair<int64_t, int64_t>> DevicePairs(const Spec& spec) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  const int64_t devices = spec.groups.num_devices();
  std::vector<bool> seen(devices);
  for (int64_t device = 0; device < devices; ++device) {
    if (seen[device]) continue;
    const std::vector<int64_t> members = spec.groups.MembersOf(device);
    for (int64_t member : members) seen[member] = true;
    const auto size = static_cast<int64_t>(members.size());
    for (auto [source, target] : spec.pairs) {
      if (source < size && target < size) pairs.emplace_back(members[source], members[target]);
    }
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

}  // namespace shardway::collective
