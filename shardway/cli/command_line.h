// Reads the command line and runs the sub-command it names.
#pragma once

#include <string>
#include <vector>

namespace shardway::cli {

// `arguments`: without the program's name. The exit code.
int Main(const std::vector<std::string>& arguments, const std::string& version);

// `shardway run`'s (and `shardway explain`'s) own options end where Python's arguments begin: at
// the first one that does not begin with "--" (a script, -m, -c), or after a bare "--". Returns the
// arguments split there.
struct SplitArguments {
  std::vector<std::string> own;
  std::vector<std::string> python;
};
SplitArguments SplitRunArguments(const std::vector<std::string>& arguments);

}  // namespace shardway::cli
