// From a program as JAX hands it over (one artifact for the whole mesh) to one per-device program
// and what the runtime must know to run it. Pure (dumps aside): no I/O, no devices; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardway/base/element_type.h"
#include "shardway/topology/links.h"

namespace shardway::compile {

class Observer;

struct Request {
  std::shared_ptr<const std::string> artifact;  // StableHLO portable artifact
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;
  // Whether sharding propagation may choose the sharding of unannotated parameters / results: one
  // entry for all, or one per value; empty: not allowed.
  std::vector<bool> allow_propagation_to_parameters;
  std::vector<bool> allow_propagation_to_results;
  bool use_shardy = true;
  // Where every device is, replica by replica: what crosses hosts and islands is dearer. Empty: all
  // are at one place. Numbers do not matter: they are 0, 1, … in the order in which they occur, so
  // that programs placed alike are one program.
  std::vector<topology::Place> places;
  topology::LinkPrices link_prices;
};

// An array at the program's boundary. Every shard has the shape `local_dims`, and those of the
// parts make `global_dims` exactly. A sharding that the program or its request gives an argument or
// a result is kept or, where a dimension does not divide by it, INVALID_ARGUMENT: JAX has no array
// of shards of several sizes and refuses such shardings before they get here, and padding would
// show in the shapes. What propagation finds is taken as far as it divides. Inside a program all
// sizes may be split.
struct Boundary {
  ElementType element = ElementType::kInvalid;
  std::vector<int64_t> global_dims;
  std::vector<int64_t> local_dims;
  std::string op_sharding;  // serialized xla.OpSharding, as the PJRT Shardings extension wants it
  bool is_token = false;    // carries no data: passed as an i1[0]-like placeholder by JAX
  // Parameters: the result that may reuse its memory (tf.aliasing_output, or a donor's first that
  // fits), or -1. A donated array is deleted after a successful start; a donor (jax.buffer_donor)
  // that no result can use is none, and stays.
  bool donated = false;
  int alias_result = -1;
  std::string memory_kind;  // "" (the device's default), "pinned_host", …
};

struct HiddenConstant {  // a constant over 64 KiB: uploaded once, passed as an argument
  ElementType element = ElementType::kInvalid;
  std::vector<int64_t> dims;  // the local shape (a constant's shards are equal on all devices)
  std::string_view bytes;     // row-major; belongs to `owner`
  std::shared_ptr<const void> owner;
};

struct Inspection {         // of a value inside the program, see inspections.h
  std::string callback;     // as the program has it: whom to tell
  std::string op_sharding;  // serialized xla.OpSharding: what propagation found
};

// One program for all devices (design decision 2). Its parameters are, in order: the user's, then,
// if `uses_coordinates`, one tensor<2xi32> = (replica id, partition id) of the executing device,
// then the hidden constants. Its results are the user's.
struct Partitioned {
  std::string name;  // the module's, e.g. "jit_step"
  std::string text;  // StableHLO text, one replica, one partition; where the user wrote what in a
                     // table at the end (ir::Locations::kTable)
  bool uses_coordinates = false;
  std::vector<HiddenConstant> constants;
  std::vector<Inspection> inspections;
  std::string manifest;  // collective::Serialize(...)
  int num_collectives = 0;
  std::vector<Boundary> parameters;
  std::vector<Boundary> results;
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;
  double flops_per_device =
      0;  // a rough count, for scheduling and the cost of what follows a collective
  std::string explanation;  // JSON, see explanation.h; empty unless asked for
};

// Errors name the value, the axis and the user's line: INVALID_ARGUMENT for a bad program,
// UNIMPLEMENTED for a construct that we do not take. Of the environment: dumps its stages where
// SHARDWAY_DUMP says (observer.h); SHARDWAY_WINDOWED_EINSUM and SHARDWAY_ISLAND_STEPS are as in
// Options.
absl::StatusOr<Partitioned> Compile(const Request& request);

struct Options {
  // The other back end of design decision 2: N partitions and StableHLO's own collectives; no
  // hidden parameters (constants stay in the text) and no place parameter.
  bool native = false;
  bool poison_padding = false;  // for tests, see spmd/partitioner.h
  bool explain = false;         // fill in Partitioned::explanation
  bool locations = true;        // in the text; false for people, to whom they are noise
  // "auto" (as empty), "always" or "never", see spmd/windowed_einsum.h.
  std::string windowed_einsum;
  std::string island_steps;  // the same, see spmd/island_steps.h
  Observer* observer = nullptr;
  // For tools: shardings of the boundary in the place of the program's own (boundary_shardings.h).
  // With a mesh, the number of partitions is its size; without one, and with num_partitions 0, it
  // is what the program says.
  std::string mesh, in_shardings, out_shardings;
};
absl::StatusOr<Partitioned> CompileWith(const Request& request, const Options& options);

}  // namespace shardway::compile
