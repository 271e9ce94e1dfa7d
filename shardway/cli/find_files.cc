#include "shardway/cli/find_files.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shardway::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kPluginInSitePackages[] = "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The site-packages folders of the Python environment at `prefix`.
std::vector<fs::path> SitePackages(const fs::path& prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(prefix / "lib", error)) {
    if (entry.path().filename().string().rfind("python3", 0) == 0) {
      found.push_back(entry.path() / "site-packages");
    }
  }
  return found;
}

bool IsExecutable(const fs::path& path) { return access(path.c_str(), X_OK) == 0; }

}  // namespace

std::string OwnPath() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? "shardway" : path.string();
}

absl::StatusOr<std::string> FindXlaPlugin() {
  if (std::string named = Environment("SHARDWAY_PLUGIN"); !named.empty()) {
    return named;
  }
  std::vector<fs::path> folders;
  // An environment that we are installed in (…/bin/shardway, …/site-packages/shardway/…), or one
  // beside a build folder of ours.
  for (fs::path dir = fs::path(OwnPath()).parent_path(); dir != dir.root_path();
       dir = dir.parent_path()) {
    folders.push_back(dir);
    for (const fs::path& prefix : {dir, dir / ".venv"}) {
      const std::vector<fs::path> packages = SitePackages(prefix);
      folders.insert(folders.end(), packages.begin(), packages.end());
    }
  }
  if (const std::string venv = Environment("VIRTUAL_ENV"); !venv.empty()) {
    const std::vector<fs::path> packages = SitePackages(venv);
    folders.insert(folders.end(), packages.begin(), packages.end());
  }
  for (const fs::path& folder : folders) {
    std::error_code error;
    if (fs::exists(folder / kPluginInSitePackages, error)) {
      return (folder / kPluginInSitePackages).string();
    }
  }
  return absl::NotFoundError(
      absl::StrCat("no XLA plugin for the workers: install one with `pip install "
                   "lammps-jax-pjrt-cpu`, or name a "
                   "PJRT plugin library with --plugin or SHARDWAY_PLUGIN (looked for ",
                   kPluginInSitePackages, " around ", OwnPath(), " and in VIRTUAL_ENV)"));
}

std::string FindPython() {
  if (std::string named = Environment("SHARDWAY_PYTHON"); !named.empty()) {
    return named;
  }
  const fs::path beside = fs::path(OwnPath()).parent_path() / "python3";
  if (IsExecutable(beside)) {
    return beside.string();
  }
  if (const std::string venv = Environment("VIRTUAL_ENV"); !venv.empty()) {
    if (const fs::path python = fs::path(venv) / "bin" / "python3"; IsExecutable(python)) {
      return python.string();
    }
  }
  return "python3";
}

}  // namespace shardway::cli
