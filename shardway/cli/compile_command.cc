#include "shardway/cli/compile_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/cli/child_process.h"
#include "shardway/cli/cluster_options.h"
#include "shardway/cli/find_files.h"
#include "shardway/compile/compile.h"
#include "shardway/compile/describe.h"
#include "shardway/compile/observer.h"

namespace shardway::cli {
namespace {

constexpr Duration kConvertTimeout = std::chrono::seconds(120);
constexpr std::string_view kMagic = "ML\xefR";  // of MLIR bytecode

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// Text as an artifact: jaxlib has the parser.
absl::StatusOr<std::string> Convert(const std::string& path) {
  std::string target = "/tmp/shardway-artifact-XXXXXX";
  const int fd = mkstemp(target.data());
  if (fd < 0) return absl::ErrnoToStatus(errno, "making a temporary file");
  close(fd);
  struct Remove {
    const std::string& path;
    ~Remove() { unlink(path.c_str()); }
  } remove{target};
  ChildOptions options;
  options.path = FindPython();
  options.arguments = {"-m", "shardway.artifact", path, target};
  SHARDWAY_ASSIGN_OR_RETURN(ChildProcess python, ChildProcess::Start(options));
  const auto ended = python.Await(kConvertTimeout);
  if (!ended) return absl::DeadlineExceededError(absl::StrCat("reading ", path, " takes too long"));
  if (ExitCode(*ended) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is neither a StableHLO artifact nor text that ", options.path, "'s jaxlib reads"));
  }
  return ReadFile(target);
}

absl::Status Print(const compile::Request& request, const CompileCommand& command, bool native) {
  const std::unique_ptr<compile::Observer> observer = compile::ObserverFromEnvironment();
  compile::Options options;
  options.native = native;
  options.explain = command.explain;
  options.locations = false;
  options.observer = observer.get();
  options.mesh = command.mesh;
  options.windowed_einsum = command.windowed_einsum;
  options.island_steps = command.island_steps;
  options.in_shardings = command.in;
  options.out_shardings = command.out;
  SHARDWAY_ASSIGN_OR_RETURN(const compile::Partitioned program,
                            compile::CompileWith(request, options));
  if (command.explain) {
    std::cout << program.explanation << "\n";
    return absl::OkStatus();
  }
  SHARDWAY_ASSIGN_OR_RETURN(const std::string text, compile::Describe(program));
  if (command.backend == "both") std::cout << "// back end: " << (native ? "native\n" : "ffi\n");
  std::cout << text;
  return absl::OkStatus();
}

// Devices that no host is given for are on one host of their island.
absl::Status Place(const CompileCommand& command, compile::Request* request) {
  const size_t count = std::max(command.islands.size(), command.hosts.size());
  for (const size_t given : {command.islands.size(), command.hosts.size()}) {
    if (given == 0 || given == count) continue;
    return absl::InvalidArgumentError(absl::StrCat("--islands has ", command.islands.size(),
                                                   " devices, --hosts ", command.hosts.size()));
  }
  for (size_t d = 0; d < count; ++d) {
    const int island = command.islands.empty() ? 0 : command.islands[d];
    request->places.push_back({island, command.hosts.empty() ? island : command.hosts[d]});
  }
  if (!command.links.empty() && command.links != ClusterOptions::kMeasured) {
    SHARDWAY_ASSIGN_OR_RETURN(request->link_prices, topology::ParseLinkPrices(command.links));
  }
  return absl::OkStatus();
}

}  // namespace

int RunCompile(const CompileCommand& command) {
  absl::StatusOr<std::string> program = ReadFile(command.file);
  if (program.ok() && !program->starts_with(kMagic)) program = Convert(command.file);
  if (!program.ok()) {
    std::cerr << "shardway compile: " << program.status().message() << "\n";
    return 2;
  }
  compile::Request request;
  request.artifact = std::make_shared<const std::string>(*std::move(program));
  request.num_partitions = 0;  // what the mesh or the program says
  if (const absl::Status placed = Place(command, &request); !placed.ok()) {
    std::cerr << "shardway compile: " << placed.message() << "\n";
    return 2;
  }
  request.allow_propagation_to_parameters = {command.propagate_inputs};
  request.allow_propagation_to_results = {command.propagate_outputs};
  for (const bool native : {false, true}) {
    if (command.backend == (native ? "ffi" : "native")) continue;
    if (command.explain && native && command.backend == "both") continue;
    if (const absl::Status status = Print(request, command, native); !status.ok()) {
      std::cerr << "shardway compile: " << status.message() << "\n";
      return 1;
    }
  }
  return 0;
}

}  // namespace shardway::cli
