// Groups of devices as axes of a mesh, in the fewest axes that tell the groups apart.
#include <algorithm>

#include "shardway/spmd/emitter.h"

namespace shardway::spmd {
namespace {

using collective::Groups;

// Digits of a logical device: sizes, major to minor, and which of them the group runs over, in
// order. Neighbouring digits that are both members (in that order) or both not become one.
Groups Coalesce(absl::Span<const int64_t> sizes, const std::vector<int>& members) {
  auto follows = [&](int digit) {  // is `digit` right after `digit - 1` among the members?
    auto it = std::find(members.begin(), members.end(), digit);
    return it != members.end() && it != members.begin() && *std::prev(it) == digit - 1;
  };
  auto is_member = [&](int digit) {
    return std::find(members.begin(), members.end(), digit) != members.end();
  };
  Groups groups;
  std::vector<int> axis_of(sizes.size());
  for (int d = 0; d < static_cast<int>(sizes.size()); ++d) {
    const bool join = d > 0 && (is_member(d) ? follows(d) : !is_member(d - 1));
    if (!join) groups.mesh.push_back(1);
    groups.mesh.back() *= sizes[d];
    axis_of[d] = static_cast<int>(groups.mesh.size()) - 1;
  }
  for (int d : members) {
    if (groups.axes.empty() || groups.axes.back() != axis_of[d]) groups.axes.push_back(axis_of[d]);
  }
  return groups;
}

// The digits of a logical device: replicas, if there are several, then the mesh's atoms.
std::vector<int64_t> LogicalSizes(const Mesh& mesh, int64_t num_replicas) {
  std::vector<int64_t> sizes;
  if (num_replicas > 1) sizes.push_back(num_replicas);
  for (int a = 0; a < mesh.num_atoms(); ++a) sizes.push_back(mesh.size(a));
  if (sizes.empty()) sizes.push_back(1);
  return sizes;
}

}  // namespace

Groups Emitter::GroupsOver(const AxisList& axes) const {
  const int shift = num_replicas_ > 1 ? 1 : 0;
  std::vector<int> members;
  for (uint8_t a : axes) members.push_back(a + shift);
  return Coalesce(LogicalSizes(*mesh_, num_replicas_), members);
}

void Emitter::SetPairs(collective::Spec& spec, Pairs pairs) const {
  const std::vector<int64_t> sizes = LogicalSizes(*mesh_, num_replicas_);
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * sizes[d];
  std::sort(pairs.begin(), pairs.end());
  // A digit is left out when all pairs keep it and are the same whatever it is.
  std::vector<int> members;
  for (size_t d = 0; d < sizes.size(); ++d) {
    auto digit = [&](int64_t device) { return device / strides[d] % sizes[d]; };
    Pairs first;
    bool kept = true;
    for (auto [from, to] : pairs) {
      kept = kept && digit(from) == digit(to);
      if (digit(from) == 0) first.emplace_back(from, to);
    }
    kept = kept && first.size() * sizes[d] == pairs.size();
    for (size_t i = 0; i < first.size() && kept; ++i) {
      for (int64_t k = 1; k < sizes[d] && kept; ++k) {
        const std::pair<int64_t, int64_t> moved(first[i].first + k * strides[d],
                                                first[i].second + k * strides[d]);
        kept = std::binary_search(pairs.begin(), pairs.end(), moved);
      }
    }
    if (kept && !pairs.empty()) {
      pairs = std::move(first);
    } else {
      members.push_back(static_cast<int>(d));
    }
  }
  auto place = [&](int64_t device) {
    int64_t place = 0;
    for (int d : members) place = place * sizes[d] + device / strides[d] % sizes[d];
    return place;
  };
  spec.pairs.clear();
  for (auto [from, to] : pairs) spec.pairs.emplace_back(place(from), place(to));
  spec.groups = Coalesce(sizes, members);
}

Groups Emitter::GroupsFromLists(std::vector<std::vector<int64_t>> lists) const {
  const int64_t total = num_replicas_ * mesh_->num_devices();
  Groups as_lists;
  as_lists.mesh = {total};
  as_lists.lists = std::move(lists);
  const auto& first = as_lists.lists.empty() ? std::vector<int64_t>() : as_lists.lists[0];
  auto strides = sharding::FindStrides(first);
  if (first.empty() || !strides ||
      static_cast<int64_t>(first.size() * as_lists.lists.size()) != total) {
    return as_lists;
  }
  // Cut the devices at every border of a stride; give up on those that do not divide each other.
  std::vector<int64_t> cuts = {1, total};
  for (const auto& s : *strides) {
    cuts.push_back(s.stride);
    cuts.push_back(s.stride * s.size);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<int64_t> sizes;
  for (size_t i = cuts.size() - 1; i > 0; --i) {
    if (cuts[i] % cuts[i - 1] != 0) return as_lists;
    sizes.push_back(cuts[i] / cuts[i - 1]);
  }
  if (sizes.empty()) sizes.push_back(1);
  std::vector<int> members;
  for (const auto& s : *strides) {
    for (size_t i = cuts.size() - 1; i > 0; --i) {
      if (cuts[i - 1] >= s.stride && cuts[i] <= s.stride * s.size) {
        members.push_back(static_cast<int>(cuts.size() - 1 - i));
      }
    }
  }
  Groups groups = Coalesce(sizes, members);
  for (const auto& list : as_lists.lists) {
    for (int64_t device : list) {
      if (device < 0 || device >= total) return as_lists;
    }
    if (groups.MembersOf(list[0]) != list) return as_lists;
  }
  return groups;
}

}  // namespace shardway::spmd
