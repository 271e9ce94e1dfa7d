// `shardway compile FILE`: prints what the compiler makes of a program. No cluster is needed.
#pragma once

#include <string>
#include <vector>

namespace shardway::cli {

struct CompileCommand {
  std::string file;     // a StableHLO portable artifact, or StableHLO text (read through jaxlib)
  std::string mesh;     // x=4,y=2; empty: what the program says
  std::string in, out;  // shardings, see compile/boundary_shardings.h
  std::vector<int> islands;        // of every device; empty: all are one
  std::vector<int> hosts;          // the same
  std::string links;               // what they cost, as topology::LinkPrices writes it
  std::string backend = "ffi";     // ffi, native or both
  std::string windowed_einsum;     // auto, always or never
  std::string island_steps;        // the same
  bool explain = false;            // print the explanation (JSON) instead of the program
  bool propagate_inputs = false;   // unannotated arguments may be split
  bool propagate_outputs = false;  // and results
};

// The exit code: 0, 1 when the program does not compile, 2 when the file cannot be read.
int RunCompile(const CompileCommand& command);

}  // namespace shardway::cli
