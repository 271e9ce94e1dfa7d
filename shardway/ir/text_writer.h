// Writes a module as StableHLO text (MLIR assembly, generic form where that is simpler) that XLA's
// parser accepts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "shardway/ir/module.h"

namespace shardway::ir {

struct TextOptions {
  bool locations = false;  // write loc(…) on every operator
  bool sdy = true;         // write sdy attributes and meshes; false drops them
  // Larger constants are elided ("dense<…>"): for people, not for XLA.
  size_t max_constant_bytes = SIZE_MAX;
};

std::string WriteText(const Module& module, const TextOptions& options = {});

}  // namespace shardway::ir
