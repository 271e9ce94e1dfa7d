// Reads a StableHLO portable artifact (VHLO bytecode, optionally with Shardy operators inside), the
// form in which JAX hands a program to a plugin. Formats: shared facts in docs/vhlo.md.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "shardway/ir/module.h"

namespace shardway::ir {

// Versions 1.0 to 1.20 (older operator versions are upgraded). The module keeps `artifact` alive:
// big constants point into it. Errors, never a crash, whatever the bytes: INVALID_ARGUMENT with the
// offset for malformed input, UNIMPLEMENTED naming the construct for quantized types and versions
// beyond ours.
absl::StatusOr<std::unique_ptr<Module>> ReadArtifact(std::shared_ptr<const std::string> artifact);

}  // namespace shardway::ir
