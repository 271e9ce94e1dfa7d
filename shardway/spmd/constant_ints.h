// Integers that a program computes from nothing but constants: the shapes that dynamic operators
// take as operands, once JAX has put the sizes in.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "shardway/ir/module.h"

namespace shardway::spmd {

class ConstantInts {
 public:
  // The elements of a small tensor of integers, row by row. Seen through are reshapes, conversions,
  // broadcasts of one element, concatenations and slices of vectors, and arithmetic. nullopt for
  // everything else. All values together take time linear in the program.
  std::optional<std::vector<int64_t>> Of(const ir::Value* v) { return Find(v, 0); }

 private:
  using Ints = std::optional<std::vector<int64_t>>;
  Ints Find(const ir::Value* v, int depth);
  Ints Compute(const ir::Op& op, int depth);

  absl::flat_hash_map<const ir::Value*, Ints> known_;
};

}  // namespace shardway::spmd
