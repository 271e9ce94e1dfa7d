// rng: numbers from a state that the operator does not show, so that no two devices need agree
// about them. The first device's are everybody's.
#include "shardway/base/status_macros.h"
#include "shardway/spmd/dynamic_window.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {

LocalResults EmitRng(LocalOp& local) {
  SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results, EmitAsIs(local));
  const AxisList everybody = local.mesh().ToList(local.mesh().all());
  if (everybody.empty()) return results;
  ir::Builder& b = local.e.b();
  const ir::Type& type = results[0]->type;
  ir::Value* first = b.Compare("EQ", local.e.Coordinate(everybody),
                               b.SplatInt(ir::Type::Scalar(ElementType::kI32), 0));
  ir::Value* mine = b.Select(first, results[0], NeutralOfSum(b, type));
  const auto sum =
      type.element == ElementType::kI1 ? collective::Reduction::kOr : collective::Reduction::kSum;
  return std::vector<ir::Value*>{local.e.AllReduce(mine, sum, everybody)};
}

}  // namespace shardway::spmd
