// constant: a splat is a smaller splat; any other is cut out of the whole by the device's place.
#include "absl/status/status.h"
#include "shardway/spmd/reshard.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {

OpRule ConstantRule(const ir::Op& op) {
  OpRule rule;
  rule.results.push_back(rule.NewTensor(op.result()->type));
  return rule;
}

LocalResults EmitConstant(LocalOp& local) {
  const ir::Attribute* attribute = local.op.Find("value");
  const ir::Constant* value = attribute != nullptr ? attribute->get_if<ir::Constant>() : nullptr;
  if (value == nullptr) return absl::InvalidArgumentError("a constant without its value");
  const ir::Type& whole = local.op.result()->type;
  if (value->splat) {
    ir::Constant part = *value;
    part.type = local.result_types[0];
    return std::vector<ir::Value*>{local.e.b().Constant(std::move(part))};
  }
  return std::vector<ir::Value*>{EmitReshard(local.e, local.e.b().Constant(*value), whole,
                                             Sharding::Replicated(whole.rank()),
                                             local.result_shardings[0], 0)};
}

}  // namespace shardway::spmd
