#include "shardway/sharding/algebra.h"

namespace shardway::sharding {

bool Refines(const Sharding& fine, const Sharding& coarse) {
  for (int d = 0; d < fine.rank(); ++d) {
    if (!IsPrefix(coarse.dims[d], fine.dims[d])) return false;
  }
  return true;
}

std::optional<Sharding> Merge(const Sharding& a, const Sharding& b) {
  Sharding merged = a;
  AxisSet used = 0;
  for (int d = 0; d < a.rank(); ++d) {
    if (IsPrefix(a.dims[d], b.dims[d])) {
      merged.dims[d] = b.dims[d];
    } else if (!IsPrefix(b.dims[d], a.dims[d])) {
      return std::nullopt;
    }
    const AxisSet set = ToSet(merged.dims[d]);
    if ((used & set) != 0) return std::nullopt;
    used |= set;
  }
  return merged;
}

Sharding Meet(const Sharding& a, const Sharding& b) {
  Sharding common = Sharding::Replicated(a.rank());
  for (int d = 0; d < a.rank(); ++d) common.dims[d] = CommonPrefix(a.dims[d], b.dims[d]);
  return common;
}

bool IsValid(const Sharding& sharding, const Mesh& mesh) {
  AxisSet used = 0;
  for (const AxisList& axes : sharding.dims) {
    for (uint8_t a : axes) {
      if (a >= mesh.num_atoms() || Contains(used, a)) return false;
      used |= AxisSet{1} << a;
    }
  }
  return true;
}

}  // namespace shardway::sharding
