// The flat program (spmd/program.h) while it is being written: operators, and beside them what the
// partitioner must know: annotations, conversions, which values are manual over what.
//
// `into` is the region that is appended to, `manual` the atoms of the regions that it stands in.
// One writer, one thread.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "shardway/ir/clone.h"
#include "shardway/ir/module.h"
#include "shardway/spmd/program.h"

namespace shardway::compile {

using sharding::Annotation;
using sharding::AxisSet;

class FlatProgram {
 public:
  FlatProgram() : module_(std::make_shared<ir::Module>()), cloner_(module_.get()) {}

  ir::Module& module() { return *module_; }
  // Which values of the source became which.
  ir::Cloner& cloner() { return cloner_; }
  spmd::Program& program() { return program_; }
  spmd::Program Finish() &&;

  // `op` itself, without its regions; its results are bound.
  ir::Op* Copy(const ir::Op& op, ir::Region* into, AxisSet manual);
  ir::Value* Constrain(ir::Value* value, Annotation annotation, ir::Region* into,
                       const ir::Location* location, AxisSet manual);
  // A conversion (kFullToShard, kShardToFull) over `axes` between a whole value and its parts, of
  // which every dimension must hold some number: INVALID_ARGUMENT otherwise. `manual` is its
  // result's.
  absl::StatusOr<ir::Value*> Convert(ir::Value* v, const ir::Type& type, std::string_view target,
                                     AxisSet axes, AxisSet manual, ir::Region* into,
                                     const ir::Location* location);
  void SetManual(const ir::Op* op, AxisSet manual);
  void SetManual(const ir::Value* v, AxisSet manual);

  // The innermost call around what is being written that has a line of the user's; null for none.
  const ir::Location* caller() const { return caller_; }
  void set_caller(const ir::Location* caller) { caller_ = caller; }

 private:
  // A function of JAX's own (jnp.roll) has no line of the user's inside: that of the call is taken.
  const ir::Location* UserLocation(const ir::Location* location);

  std::shared_ptr<ir::Module> module_;
  ir::Cloner cloner_;
  spmd::Program program_;
  const ir::Location* caller_ = nullptr;
  absl::flat_hash_map<std::pair<const ir::Location*, const ir::Location*>, const ir::Location*>
      called_from_;
};

}  // namespace shardway::compile
