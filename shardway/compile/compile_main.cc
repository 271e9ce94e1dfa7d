// shardway-compile: a program artifact in, the per-device program out. For tests and for looking
// at.
//
//   shardway-compile ARTIFACT [--partitions N] [--replicas N] [--native] [--poison-padding]
//   [--shardy 0|1] [--propagate-results] [--island DEVICES] [--time REPEATS]
//   [--windowed-einsum auto|always|never]
//
// Prints the text, then, after a line "// ----", the collectives and the boundary as comments. With
// --time it prints how long the fastest of so many compilations took, and the peak of its memory.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "shardway/compile/compile.h"
#include "shardway/compile/describe.h"

namespace {

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
  int island = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    auto next = [&] { return i + 1 < argc ? std::stoll(argv[++i]) : 1; };
    if (arg == "--partitions") {
      request.num_partitions = next();
    } else if (arg == "--replicas") {
      request.num_replicas = next();
    } else if (arg == "--shardy") {
      request.use_shardy = next() != 0;
    } else if (arg == "--island") {
      island = static_cast<int>(std::max<long long>(next(), 1));
    } else if (arg == "--time") {
      repeats = next();
    } else if (arg == "--native") {
      options.native = true;
    } else if (arg == "--poison-padding") {
      options.poison_padding = true;
    } else if (arg == "--windowed-einsum" && i + 1 < argc) {
      options.windowed_einsum = argv[++i];
    } else if (arg == "--propagate-results") {
      request.allow_propagation_to_results = {true};
    } else if (arg == "--propagate-parameters") {
      request.allow_propagation_to_parameters = {true};
    } else {
      path = arg;
    }
  }
  for (int d = 0; island > 0 && d < request.num_replicas * request.num_partitions; ++d)
    request.places.push_back({d / island, d / island});
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::cerr << "cannot read " << path << "\n";
    return 2;
  }
  request.artifact = std::make_shared<const std::string>(std::istreambuf_iterator<char>(file),
                                                         std::istreambuf_iterator<char>());
  options.locations = repeats > 0;  // timed as for XLA, printed as for people
  if (repeats > 0) return Time(request, options, repeats);
  auto result = shardway::compile::CompileWith(request, options);
  if (!result.ok()) {
    std::cerr << result.status().ToString() << "\n";
    return 1;
  }
  const auto text = shardway::compile::Describe(*result);
  if (!text.ok()) {
    std::cerr << text.status().ToString() << "\n";
    return 1;
  }
  std::cout << *text;
  return 0;
}
