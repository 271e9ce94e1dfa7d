// A program before and after it has a place. The partitioner's result names devices only by their
// logical position, so one Program serves every session and every slice of its size (Pathways
// §4.3); placing it on a slice is cheap.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardway/compile/compile.h"
#include "shardway/program/array_layout.h"

namespace shardway::program {

// Immutable; shared.
using ProgramPtr = std::shared_ptr<const compile::Partitioned>;

// A program on the devices of a slice. Immutable.
struct PlacedProgram {
  ProgramPtr program;
  const topology::Slice* slice = nullptr;
  std::vector<ArrayLayoutPtr> parameters;
  std::vector<ArrayLayoutPtr> results;
  int64_t result_bytes = 0;  // of all results, per device

  // OK, or INVALID_ARGUMENT saying how an array differs from what parameter `index` takes.
  absl::Status CheckArgument(int index, const ArrayLayout& argument) const;
};

// INVALID_ARGUMENT unless the slice has exactly the devices that the program was made for.
absl::StatusOr<std::shared_ptr<const PlacedProgram>> Place(ProgramPtr program,
                                                           const topology::Slice* slice);

}  // namespace shardway::program
