// `shardway explain script.py`: runs a script on a private cluster, then prints for each function
// that it jitted how it was partitioned and why.
#pragma once

#include <string>

#include "shardway/cli/run_command.h"

namespace shardway::cli {

struct ExplainCommand {
  RunCommand run;
  std::string html;  // a page at this path, instead of text
};

// The script's exit status when that is not 0; otherwise that of the printing.
int RunExplain(const ExplainCommand& command);

}  // namespace shardway::cli
