// Shardings of a program's arguments and results, given as text: for tools.
//
//   shardings := sharding*             one for each value, in order; what is missing stays as it is
//   sharding  := '-'                   as it is
//              | '[' (dim (',' dim)*)? ']'
//   dim       := '{' axes? '}' priority?
//   axes      := axis (',' axis)* (',' '?')? | '?'        '?': may be split further
//   axis      := name | name ':(' before ')' size
//   priority  := 'p' number            smaller ones propagate first; none is p0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardway/ir/module.h"

namespace shardway::compile {

// "x=4,y=2". INVALID_ARGUMENT for anything else, an axis named twice or more than 2^20 devices.
absl::StatusOr<ir::SdyMesh> ParseMesh(std::string_view text);

// Puts the shardings, over `mesh`, in the place of the annotations of main's arguments and results.
// INVALID_ARGUMENT quoting the text and the place of the fault, or naming the value that does not
// exist. Axes and ranks are checked where annotations are read.
absl::Status SetBoundaryShardings(ir::Module& module, const ir::SdyMesh& mesh,
                                  std::string_view arguments, std::string_view results);

// The devices that a program is for: what it says itself (mhlo.num_partitions, its first mesh),
// or 1.
int64_t PartitionsOf(const ir::Module& module);

}  // namespace shardway::compile
