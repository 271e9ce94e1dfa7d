#include "shardway/cli/explain_command.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "shardway/cli/child_process.h"
#include "shardway/cli/find_files.h"

namespace shardway::cli {
namespace {

constexpr Duration kPrintTimeout = std::chrono::seconds(120);

int Print(const std::string& directory, const std::string& html) {
  ChildOptions options;
  options.path = FindPython();
  options.arguments = {"-m", "shardway.explanation", directory};
  if (!html.empty()) options.arguments.push_back("--html=" + html);
  absl::StatusOr<ChildProcess> python = ChildProcess::Start(options);
  if (!python.ok()) {
    std::fprintf(stderr, "shardway explain: %s\n", std::string(python.status().message()).c_str());
    return 127;
  }
  const auto ended = python->Await(kPrintTimeout);
  return ended ? ExitCode(*ended) : 1;
}

}  // namespace

int RunExplain(const ExplainCommand& command) {
  std::string directory = (std::filesystem::temp_directory_path() / "shardway-explain-XXXXXX");
  if (mkdtemp(directory.data()) == nullptr) {
    std::perror("shardway explain: a temporary directory");
    return 1;
  }
  // Only what this script compiles is explained, whatever the user's own directory has already.
  const char* asked = std::getenv("SHARDWAY_DUMP");
  const std::string users = asked != nullptr ? asked : "";
  setenv("SHARDWAY_DUMP", directory.c_str(), 1);  // the controller is a child of ours
  int status = RunScript(command.run);
  unsetenv("SHARDWAY_DUMP");
  // What was compiled before a script failed is worth showing too.
  const int printed = Print(directory, command.html);
  if (status == 0) status = printed;
  std::error_code error;
  if (!users.empty()) {
    std::filesystem::create_directories(users, error);
    using std::filesystem::copy_options;
    std::filesystem::copy(directory, users,
                          copy_options::recursive | copy_options::overwrite_existing, error);
    if (error) {
      std::fprintf(stderr, "shardway explain: cannot write to SHARDWAY_DUMP=%s: %s\n",
                   users.c_str(), error.message().c_str());
      if (status == 0) status = 1;
    }
  }
  std::filesystem::remove_all(directory, error);
  return status;
}

}  // namespace shardway::cli
