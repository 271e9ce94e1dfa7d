// Writes a module as StableHLO text (MLIR assembly, generic form where that is simpler) that XLA's
// parser accepts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "shardway/ir/module.h"

namespace shardway::ir {

enum class Locations {
  kNone,
  // For people: loc("jit(step)/add"("train.py":12:3)) behind operators and arguments.
  kInline,
  // For XLA: loc(#loc7), and what that is in a table behind the module, each location once.
  // Numbered in the order of their first use: programs that differ only in where the user wrote
  // them have the same text up to the table (see program_loader.cc).
  kTable,
};

struct TextOptions {
  Locations locations = Locations::kNone;
  bool sdy = true;  // write sdy attributes and meshes; false drops them
  // Larger constants are elided ("dense<…>"): for people, not for XLA.
  size_t max_constant_bytes = SIZE_MAX;
};

std::string WriteText(const Module& module, const TextOptions& options = {});

}  // namespace shardway::ir
