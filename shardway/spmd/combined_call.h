// Several collectives of a region as one call: what passes that find them have in common.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

// Equal for specifications that differ only in operands, results and location.
std::string LikenessOf(const collective::Spec& spec);

// The calls that take the place of others. One region at a time.
class CombinedCalls {
 public:
  explicit CombinedCalls(Emitter& emitter) : emitter_(emitter) {}

  // One call for `members`, which are alike (`like`), at the place of `place` in `region`. Returns
  // the operators that make it.
  absl::Span<ir::Op* const> Add(const std::vector<ir::Op*>& members, const collective::Spec& like,
                                const Cause& cause, const ir::Op* place, ir::Region* region);
  // `region` without the members and with the calls added since the last time.
  void PutInto(ir::Region* region);

  // Values that a member gave → those of its call, in all regions so far.
  const absl::flat_hash_map<const ir::Value*, ir::Value*>& replaced() const { return replaced_; }

 private:
  Emitter& emitter_;
  absl::flat_hash_map<const ir::Op*, std::vector<ir::Op*>> instead_;
  absl::flat_hash_map<const ir::Value*, ir::Value*> replaced_;
  ir::Region scratch_;
};

}  // namespace shardway::spmd
