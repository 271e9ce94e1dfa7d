#include "shardway/base/logging.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace shardway {

void InitLogging(std::string_view role) {
  std::vector<spdlog::sink_ptr> sinks = {std::make_shared<spdlog::sinks::stderr_sink_mt>()};
  const char* dir = std::getenv("SHARDWAY_LOG_DIR");
  std::string failure;
  if (dir != nullptr && *dir != '\0') {
    std::string file(role);
    for (char& c : file) {
      if (c == ' ' || c == '/') c = '-';
    }
    try {
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(
          std::string(dir) + "/" + file + "." + std::to_string(getpid()) + ".log"));
    } catch (const spdlog::spdlog_ex& error) {
      failure = error.what();
    }
  }
  auto logger = std::make_shared<spdlog::logger>(std::string(role), sinks.begin(), sinks.end());
  const char* level = std::getenv("SHARDWAY_LOG");
  logger->set_level(level != nullptr ? spdlog::level::from_str(level) : spdlog::level::warn);
  logger->set_pattern("%H:%M:%S.%e %l shardway %n] %v");
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  if (!failure.empty()) spdlog::warn("no log file in SHARDWAY_LOG_DIR: {}", failure);
}

}  // namespace shardway
