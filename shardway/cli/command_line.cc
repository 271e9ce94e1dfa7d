#include "shardway/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "shardway/cli/controller_command.h"
#include "shardway/cli/run_command.h"
#include "shardway/worker/daemon.h"

namespace shardway::cli {

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
  if (!own.empty() && own[0] == "run") {
    SplitArguments split = SplitRunArguments({own.begin() + 1, own.end()});
    run_options.python_arguments = std::move(split.python);
    own = std::move(split.own);
    own.insert(own.begin(), "run");
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
  if (controller->parsed()) {
    return RunController(controller_options);
  }
  return worker::RunWorkerMain(worker_fd);
}

}  // namespace shardway::cli
