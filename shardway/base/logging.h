// The process's log, over spdlog. One line: time, level, process role, message.
//
//   InitLogging("worker 3");   // once, in main; before it lines go to stderr with no role
//   LOG_INFO("loaded {} in {} ms", path, ms);
//
// SHARDWAY_LOG=debug|info|warn|error|off chooses the level (default: warn), so a user's screen
// stays theirs. SHARDWAY_LOG_DIR=dir also writes each process's lines to dir/<role>.<pid>.log.
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

namespace shardway {

void InitLogging(std::string_view role);

}  // namespace shardway

#define LOG_DEBUG(...) ::spdlog::debug(__VA_ARGS__)
#define LOG_INFO(...) ::spdlog::info(__VA_ARGS__)
#define LOG_WARN(...) ::spdlog::warn(__VA_ARGS__)
#define LOG_ERROR(...) ::spdlog::error(__VA_ARGS__)
