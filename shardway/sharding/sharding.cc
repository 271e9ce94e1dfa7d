#include "shardway/sharding/sharding.h"

#include "absl/strings/str_cat.h"

namespace shardway::sharding {

AxisSet Sharding::used() const {
  AxisSet set = 0;
  for (const AxisList& axes : dims) set |= ToSet(axes);
  return set;
}

ir::Type LocalType(const ir::Type& type, const Sharding& sharding, const Mesh& mesh) {
  if (!type.is_tensor()) return type;
  ir::Type local = type;
  for (int d = 0; d < sharding.rank(); ++d) {
    if (!sharding.dims[d].empty()) {
      local.dims[d] = CeilDiv(type.dims[d], mesh.SizeOf(sharding.dims[d]));
    }
  }
  return local;
}

bool IsEven(const ir::Type& type, const Sharding& sharding, const Mesh& mesh) {
  for (int d = 0; d < sharding.rank(); ++d) {
    if (type.dims[d] % mesh.SizeOf(sharding.dims[d]) != 0) return false;
  }
  return true;
}

std::string ToString(const Sharding& sharding, const Mesh& mesh) {
  std::string text = "[";
  for (int d = 0; d < sharding.rank(); ++d) {
    absl::StrAppend(&text, d == 0 ? "{" : ", {", mesh.ToString(sharding.dims[d]), "}");
  }
  return text + "]";
}

}  // namespace shardway::sharding
