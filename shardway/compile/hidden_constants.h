// Constants over 64 KiB leave the program's text and become parameters (design decision 2).
#pragma once

#include <vector>

#include "shardway/compile/compile.h"
#include "shardway/ir/module.h"

namespace shardway::compile {

inline constexpr int64_t kMaxInlineConstantBytes = 64 << 10;

// Replaces them by new last parameters of main, one for each distinct constant, in the order of the
// program. What they point to stays alive with the result.
std::vector<HiddenConstant> HoistConstants(ir::Module& module);

}  // namespace shardway::compile
