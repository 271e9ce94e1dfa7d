#include "shardway/spmd/costs.h"

namespace shardway::spmd {

double MultiplyAdds(const ir::Op& dot) {
  double count = static_cast<double>(dot.result()->type.num_elements());
  for (int64_t d : dot.IntList("lhs_contracting_dimensions"))
    count *= static_cast<double>(dot.operand(0)->type.dims[d]);
  return count;
}

}  // namespace shardway::spmd
