// A compiled program for people to read.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "shardway/compile/compile.h"

namespace shardway::compile {

// The per-device program's text; then, after a line "// ----", its collectives and its boundary as
// comments. INTERNAL when the manifest is no manifest.
absl::StatusOr<std::string> Describe(const Partitioned& program);

}  // namespace shardway::compile
