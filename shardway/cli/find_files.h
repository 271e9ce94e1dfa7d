// Where things are on this machine.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace shardway::cli {

// This program's own path.
std::string OwnPath();

// The XLA plugin that workers load by default: the CPU wheel's (docs/decisions.md). Looked for in
// the Python environments around this program and in $VIRTUAL_ENV; $SHARDWAY_PLUGIN names one
// outright. NOT_FOUND says where it was looked for and how to install it.
absl::StatusOr<std::string> FindXlaPlugin();

// The environment's interpreter: $SHARDWAY_PYTHON, python3 beside this program, in $VIRTUAL_ENV, in
// PATH.
std::string FindPython();

}  // namespace shardway::cli
