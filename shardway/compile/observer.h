// Looks on while a program is compiled.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace shardway::compile {

// Called on the compiling thread, once for each stage in order. A stage is a file's name, e.g.
// "3-propagated.mlir":
//   1-imported.mlir      as JAX sent it
//   2-flat.mlir          calls inlined, manual regions as conversions
//   3-propagated.mlir    with the sharding of every value
//   4.N-PASS.mlir        the per-device program as first written (4.0-written) and after each pass
//                        that changed it (4.5-combined, …)
//   4-partitioned.mlir   the per-device program
//   5-device.mlir        what XLA gets: large constants are arguments, results share memory
//   explanation.json     see explanation.h
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void OnStage(std::string_view program, std::string_view stage,
                       const std::string& text) = 0;
};

// Writes every stage of every program into a directory, as NNNN.PROGRAM.STAGE, numbered in the
// order in which compilations begin in this process. What cannot be written is logged and left out:
// looking on changes no compilation. One for each compilation.
class DumpDirectory : public Observer {
 public:
  explicit DumpDirectory(std::string directory);
  void OnStage(std::string_view program, std::string_view stage, const std::string& text) override;

 private:
  std::string directory_;
  int number_;
};

// Into the directory that SHARDWAY_DUMP names; null where it is not set.
std::unique_ptr<Observer> ObserverFromEnvironment();

}  // namespace shardway::compile
