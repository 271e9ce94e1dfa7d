// shardway-compile: a program artifact in, the per-device program out. For tests and for looking
// at.
//
//   shardway-compile ARTIFACT [--partitions N] [--replicas N] [--native] [--poison-padding]
//   [--shardy 0|1] [--propagate-results] [--time REPEATS]
//
// Prints the text, then, after a line "// ----", the collectives and the boundary as comments. With
// --time it prints how long the fastest of so many compilations took, and the peak of its memory.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "shardway/collective/spec.h"
#include "shardway/compile/compile.h"

namespace {

void PrintBoundary(const char* what, size_t i, const shardway::compile::Boundary& b) {
  std::cout << "// " << what << " " << i << ": " << shardway::ElementTypeName(b.element) << "[";
  for (size_t d = 0; d < b.global_dims.size(); ++d) std::cout << (d ? "," : "") << b.global_dims[d];
  std::cout << "] shard [";
  for (size_t d = 0; d < b.local_dims.size(); ++d) std::cout << (d ? "," : "") << b.local_dims[d];
  std::cout << "] sharding ";
  for (unsigned char c : b.op_sharding) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", c);
    std::cout << hex;
  }
  if (b.donated) std::cout << " donated";
  if (b.alias_result >= 0) std::cout << " alias " << b.alias_result;
  std::cout << "\n";
}

int Time(const shardway::compile::Request& request, const shardway::compile::Options& options,
         int64_t repeats) {
  double fastest = 1e9;
  for (int64_t i = 0; i < std::max<int64_t>(repeats, 1); ++i) {
    const auto begun = std::chrono::steady_clock::now();
    const auto result = shardway::compile::CompileWith(request, options);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    if (!result.ok()) {
      std::cerr << result.status().ToString() << "\n";
      return 1;
    }
    fastest = std::min(fastest, took.count());
  }
  // Not getrusage: what it says begins with the memory of the process that started this one.
  std::ifstream status("/proc/self/status");
  int64_t peak_kb = 0;
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") status >> peak_kb;
  }
  std::cout << "{\"seconds\": " << fastest << ", \"peak_bytes\": " << peak_kb * 1024 << "}\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  shardway::compile::Request request;
  std::string path;
  shardway::compile::Options options;
  int64_t repeats = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    auto next = [&] { return i + 1 < argc ? std::stoll(argv[++i]) : 1; };
    if (arg == "--partitions") {
      request.num_partitions = next();
    } else if (arg == "--replicas") {
      request.num_replicas = next();
    } else if (arg == "--shardy") {
      request.use_shardy = next() != 0;
    } else if (arg == "--time") {
      repeats = next();
    } else if (arg == "--native") {
      options.native = true;
    } else if (arg == "--poison-padding") {
      options.poison_padding = true;
    } else if (arg == "--propagate-results") {
      request.allow_propagation_to_results = {true};
    } else if (arg == "--propagate-parameters") {
      request.allow_propagation_to_parameters = {true};
    } else {
      path = arg;
    }
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::cerr << "cannot read " << path << "\n";
    return 2;
  }
  request.artifact = std::make_shared<const std::string>(std::istreambuf_iterator<char>(file),
                                                         std::istreambuf_iterator<char>());
  if (repeats > 0) return Time(request, options, repeats);
  auto result = shardway::compile::CompileWith(request, options);
  if (!result.ok()) {
    std::cerr << result.status().ToString() << "\n";
    return 1;
  }
  std::cout << result->text << "// ----\n";
  const auto specs = shardway::collective::Parse(result->manifest);
  if (!specs.ok()) {
    std::cerr << specs.status().ToString() << "\n";
    return 1;
  }
  for (const auto& spec : *specs) {
    std::cout << "// site " << spec.site << ": " << spec.ToString() << " then "
              << spec.work_after_us << " us, " << spec.location << "\n";
  }
  for (size_t i = 0; i < result->parameters.size(); ++i) {
    PrintBoundary("parameter", i, result->parameters[i]);
  }
  for (size_t i = 0; i < result->results.size(); ++i)
    PrintBoundary("result", i, result->results[i]);
  std::cout << "// place " << result->uses_coordinates << " constants " << result->constants.size()
            << " flops " << result->flops_per_device << "\n";
  return 0;
}
