#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "shardway/base/logging.h"
#include "shardway/compile/observer.h"

namespace shardway::compile {
namespace {

constexpr size_t kMaxNameLength = 80;

int NextNumber() {
  static std::atomic<int> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// The program's name comes from outside: only what is harmless in a file's name.
std::string Harmless(std::string_view name) {
  std::string result;
  for (char c : name.substr(0, kMaxNameLength)) {
    result += absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  }
  return result.empty() ? "program" : result;
}

}  // namespace

DumpDirectory::DumpDirectory(std::string directory)
    : directory_(std::move(directory)), number_(NextNumber()) {}

void DumpDirectory::OnStage(std::string_view program, std::string_view stage,
                            const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  const std::string path =
      absl::StrFormat("%s/%04d.%s.%s", directory_, number_, Harmless(program), std::string(stage));
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) LOG_WARN("SHARDWAY_DUMP: cannot write {}", path);
}

std::unique_ptr<Observer> ObserverFromEnvironment() {
  const char* directory = std::getenv("SHARDWAY_DUMP");
  if (directory == nullptr || *directory == '\0') return nullptr;
  return std::make_unique<DumpDirectory>(directory);
}

}  // namespace shardway::compile
