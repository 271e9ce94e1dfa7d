// Who uses each value of a program (the IR does not track it). Immutable, hence thread-safe.
#pragma once

#include <vector>

#include "shardway/ir/module.h"

namespace shardway::spmd {

class Uses {
 public:
  // Of the main function and everything in it. The module must not change afterwards.
  explicit Uses(const ir::Module& module);

  // How often it is an operand, inside regions too.
  int Count(const ir::Value* v) const { return of_[v->id].count; }
  // Its only user, where that is an operator of the region that makes it; null otherwise.
  const ir::Op* Only(const ir::Value* v) const;
  // Whether regions inside of the one that makes it use it.
  bool Inside(const ir::Value* v) const { return of_[v->id].inside; }

 private:
  struct Of {
    const ir::Op* user = nullptr;  // the last one
    int count = 0;
    bool inside = false;
  };
  void Walk(const ir::Region& region);

  std::vector<Of> of_;  // by Value::id
};

}  // namespace shardway::spmd
