// Which operators of a program matter: those with effects, and those whose results reach one or the
// end.
#pragma once

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "shardway/ir/module.h"

namespace shardway::spmd {

class Liveness {
 public:
  explicit Liveness(const ir::Module& module);
  bool IsLive(const ir::Op& op) const { return live_.contains(&op); }
  // Whether an operator that matters takes it; a result that nobody uses may stay as it is
  // computed.
  bool IsUsed(const ir::Value* v) const { return used_[v->id]; }

 private:
  void Walk(const ir::Region& region);
  bool used(const ir::Op& op) const;
  std::vector<bool> used_;  // by Value::id
  absl::flat_hash_set<const ir::Op*> live_;
};

}  // namespace shardway::spmd
