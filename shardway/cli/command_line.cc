#include "shardway/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "shardway/cli/compile_command.h"
#include "shardway/cli/controller_command.h"
#include "shardway/cli/explain_command.h"
#include "shardway/cli/run_command.h"
#include "shardway/worker/daemon.h"

namespace shardway::cli {
namespace {

void AddTo(CLI::App& command, CompileCommand& options) {
  command.add_option("file", options.file, "a StableHLO artifact, or StableHLO text")->required();
  command.add_option("--mesh", options.mesh, "axes and sizes, major to minor: x=4,y=2");
  command.add_option("--in", options.in, "shardings of the arguments: \"[{x},{}] - [{y,?}]\"");
  command.add_option("--out", options.out, "shardings of the results");
  command.add_option("--islands", options.islands, "the island of every device: 0,0,1,1")
      ->delimiter(',');
  command.add_option("--hosts", options.hosts, "the host of every device: 0,0,1,1")->delimiter(',');
  command
      .add_option("--links", options.links,
                  "what sending costs beside 1 inside a host: hosts=C:B,islands=C:B, a collective "
                  "and a byte")
      ->envname("SHARDWAY_LINKS");
  command.add_option("--backend", options.backend, "whose collectives: ffi, native or both")
      ->check(CLI::IsMember({"ffi", "native", "both"}));
  command
      .add_option("--windowed-einsum", options.windowed_einsum,
                  "gathers and scattered sums of matrix products as rings: where it pays (auto), "
                  "always or never")
      ->envname("SHARDWAY_WINDOWED_EINSUM")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command
      .add_option("--island-steps", options.island_steps,
                  "sums across islands scattered, summed and gathered: where it pays (auto), "
                  "always or never")
      ->envname("SHARDWAY_ISLAND_STEPS")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command.add_flag("--explain", options.explain, "print why, as JSON, instead of the program");
  command.add_flag("--propagate-in", options.propagate_inputs,
                   "arguments that say nothing may be split");
  command.add_flag("--propagate-out", options.propagate_outputs,
                   "results that say nothing may be split");
}

}  // namespace

SplitArguments SplitRunArguments(const std::vector<std::string>& arguments) {
  SplitArguments split;
  size_t i = 0;
  while (i < arguments.size() && arguments[i].rfind("--", 0) == 0) {
    const std::string& argument = arguments[i++];
    if (argument == "--") {
      break;
    }
    split.own.push_back(argument);
    const bool has_value = argument.find('=') != std::string::npos || argument == "--help";
    if (!has_value && i < arguments.size()) {
      split.own.push_back(arguments[i++]);
    }
  }
  split.python.assign(arguments.begin() + i, arguments.end());
  return split;
}

int Main(const std::vector<std::string>& arguments, const std::string& version) {
  CLI::App app("Shardway: a cluster as one machine for one Python process", "shardway");
  app.set_version_flag("--version", version);
  app.require_subcommand(1);

  RunCommand run_options;
  CLI::App* run = app.add_subcommand("run", "run a Python script on a private cluster");
  run->footer("then: script.py args…, or -m module args…, or -c code");
  run_options.cluster.AddTo(*run);

  ExplainCommand explain_options;
  CLI::App* explain = app.add_subcommand(
      "explain", "run a Python script, then print how its functions were partitioned and why");
  explain->footer("then: script.py args…, or -m module args…, or -c code");
  explain_options.run.cluster.AddTo(*explain);
  explain->add_option("--html", explain_options.html, "write a page to this file instead");

  CompileCommand compile_options;
  CLI::App* compile =
      app.add_subcommand("compile", "print the per-device program of a StableHLO program");
  AddTo(*compile, compile_options);

  ControllerCommand controller_options;
  CLI::App* controller =
      app.add_subcommand("controller", "the controller of a cluster on this machine");
  controller_options.cluster.AddTo(*controller);
  controller->add_option("--fd", controller_options.fd,
                         "serve the client on this inherited socket");
  controller->add_option("--listen", controller_options.listen,
                         "serve clients at this address (unix:@name)");
  controller->add_option("--ready-fd", controller_options.ready_fd, "")->group("");

  int worker_fd = -1;
  CLI::App* worker =
      app.add_subcommand("worker", "the worker of one host (started by the controller)");
  worker->add_option("--fd", worker_fd, "the inherited socket to the controller")->required();

  std::vector<std::string> own = arguments;
  if (!own.empty() && (own[0] == "run" || own[0] == "explain")) {
    const std::string name = own[0];
    SplitArguments split = SplitRunArguments({own.begin() + 1, own.end()});
    RunCommand& target = name == "run" ? run_options : explain_options.run;
    target.python_arguments = std::move(split.python);
    own = std::move(split.own);
    own.insert(own.begin(), name);
  }
  std::reverse(own.begin(), own.end());  // as CLI11 wants them
  try {
    app.parse(own);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  if (run->parsed()) {
    return RunScript(run_options);
  }
  if (explain->parsed()) {
    return RunExplain(explain_options);
  }
  if (compile->parsed()) {
    return RunCompile(compile_options);
  }
  if (controller->parsed()) {
    return RunController(controller_options);
  }
  return worker::RunWorkerMain(worker_fd);
}

}  // namespace shardway::cli
