#include "shardway/spmd/combined_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shardway::spmd {

std::string LikenessOf(const collective::Spec& spec) {
  std::string key =
      absl::StrCat(static_cast<int>(spec.kind), " ", static_cast<int>(spec.reduction), " ",
                   spec.dim0, " ", spec.dim1, " of ", absl::StrJoin(spec.groups.mesh, ","),
                   " over ", absl::StrJoin(spec.groups.axes, ","));
  for (const auto& list : spec.groups.lists) absl::StrAppend(&key, "|", absl::StrJoin(list, ","));
  for (auto [source, target] : spec.pairs) absl::StrAppend(&key, ";", source, ">", target);
  return key;
}

absl::Span<ir::Op* const> CombinedCalls::Add(const std::vector<ir::Op*>& members,
                                             const collective::Spec& like, const Cause& cause,
                                             const ir::Op* place, ir::Region* region) {
  std::vector<ir::Value*> operands;
  std::vector<ir::Type> types;
  for (const ir::Op* op : members) {
    operands.insert(operands.end(), op->operands.begin(), op->operands.end());
    for (const ir::Value* v : op->results) types.push_back(v->type);
    instead_[op] = {};
  }
  emitter_.set_cause(cause);
  emitter_.b().set_region(&scratch_);
  emitter_.b().set_location(members.front()->location);
  const std::vector<ir::Value*> results = emitter_.Together(like, operands, types);
  size_t at = 0;
  for (const ir::Op* op : members) {
    for (const ir::Value* v : op->results) replaced_[v] = results[at++];
  }
  for (ir::Op* op : scratch_.ops) op->parent = region;
  std::vector<ir::Op*>& made = instead_[place];
  made = std::exchange(scratch_.ops, {});
  return made;
}

void CombinedCalls::PutInto(ir::Region* region) {
  std::vector<ir::Op*> ops;
  for (ir::Op* op : region->ops) {
    if (const auto by = instead_.find(op); by != instead_.end()) {
      ops.insert(ops.end(), by->second.begin(), by->second.end());
    } else {
      ops.push_back(op);
    }
  }
  region->ops = std::move(ops);
  instead_.clear();
}

}  // namespace shardway::spmd
