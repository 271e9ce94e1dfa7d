// Early return on errors. Errors are absl::Status values; no exception crosses a module.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define SHARDWAY_CONCAT_INNER_(a, b) a##b
#define SHARDWAY_CONCAT_(a, b) SHARDWAY_CONCAT_INNER_(a, b)

// Evaluates `expr` (absl::Status) and returns it from the enclosing function unless it is OK.
#define SHARDWAY_RETURN_IF_ERROR(expr)                  \
  do {                                                  \
    if (absl::Status _status = (expr); !_status.ok()) { \
      return _status;                                   \
    }                                                   \
  } while (false)

// SHARDWAY_ASSIGN_OR_RETURN(auto value, StatusOrExpression());
#define SHARDWAY_ASSIGN_OR_RETURN(lhs, expr) \
  SHARDWAY_ASSIGN_OR_RETURN_IMPL_(SHARDWAY_CONCAT_(_status_or_, __COUNTER__), lhs, expr)

#define SHARDWAY_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                                    \
  if (!tmp.ok()) {                                      \
    return std::move(tmp).status();                     \
  }                                                     \
  lhs = *std::move(tmp)
