// From a program and a sharding for every value to one per-device program (GSPMD §4).
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardway/collective/spec.h"
#include "shardway/spmd/emitter.h"
#include "shardway/spmd/island_steps.h"
#include "shardway/spmd/propagation.h"
#include "shardway/spmd/windowed_einsum.h"

namespace shardway::spmd {

struct PerDevice {
  std::unique_ptr<ir::Module>
      module;               // one function, main; independent of the program it came from
  bool uses_place = false;  // main's last parameter is tensor<2xi32>: (replica, partition)
  std::vector<collective::Spec> collectives;  // by site
  std::vector<Cause> causes;                  // why, by site; refers to the program it came from
};

struct PartitionOptions {
  Backend backend = Backend::kFfi;
  // For tests: fills the padding of every operand of every operator with NaN (integers: with 113),
  // so that nothing can rely on what it holds.
  bool poison_padding = false;
  WindowedEinsum windowed_einsum = WindowedEinsum::kAuto;
  IslandSteps island_steps = IslandSteps::kAuto;
  // Shown the per-device program as it was first written and after each pass over it ("combined").
  std::function<void(std::string_view pass, const ir::Module&)> on_pass;
};

// `shardings` by Value::id, as Propagate gives them; main's arguments and returned values are
// exactly so at the boundary. UNIMPLEMENTED or INVALID_ARGUMENT naming the operator and the user's
// line.
absl::StatusOr<PerDevice> Partition(const Program& program, const Rules& rules,
                                    const std::vector<Sharding>& shardings,
                                    const PartitionOptions& options);

}  // namespace shardway::spmd
