// State that a loop only hands on is resharded once, before the loop, and not in every round of it:
// the new layout becomes one more state of the loop.
//
//   while (w, …) { use(all_gather(w)); return w, … }
//   → g = all_gather(w); while (w, …, g) { use(g); return w, …, g }
#pragma once

#include <vector>

#include "shardway/ir/module.h"
#include "shardway/spmd/program.h"

namespace shardway::spmd {

class LoopHoisting {
 public:
  // State `index` of the loop, wanted in its body under `sharding`.
  struct Hoisted {
    int index;
    Sharding sharding;
    ir::Value* argument;  // of the body being written
  };
  // A loop whose body is being written.
  struct Loop {
    const ir::Region* body;  // of the program
    ir::Region* new_body;
    size_t scope;  // of the body (local_values.h)
    std::vector<Hoisted> hoisted;
  };

  // Arguments are added to bodies in `module`; both outlive it.
  LoopHoisting(ir::Module* module, const Mesh* mesh) : module_(module), mesh_(mesh) {}

  void Enter(const ir::Region* body, ir::Region* new_body, size_t scope) {
    loops_.push_back({body, new_body, scope, {}});
  }
  // What the innermost loop's body wants from before it.
  std::vector<Hoisted> Leave();

  // The loop that hands `v` on, where it now has one more state: the last of `hoisted`. Null when
  // `v` is nothing of the kind, or when the reshard costs no communication.
  const Loop* Hoist(const ir::Value* v, const Sharding& have, const Sharding& want);

 private:
  ir::Module* module_;
  const Mesh* mesh_;
  std::vector<Loop> loops_;  // innermost last
};

}  // namespace shardway::spmd
