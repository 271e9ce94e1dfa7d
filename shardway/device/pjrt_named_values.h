// Create options of a PJRT client from "name=value" strings.
#pragma once

#include <pjrt_c_api.h>

#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace shardway::device {

// Owns the strings that its values point to; not copyable.
class NamedValues {
 public:
  NamedValues() = default;
  NamedValues(const NamedValues&) = delete;
  NamedValues& operator=(const NamedValues&) = delete;

  void AddInt(std::string name, int64_t value);
  // A value of true / false becomes a boolean, digits an integer, a number with a point a float,
  // and all else a string. INVALID_ARGUMENT without a "=" or a name. A name given before is
  // replaced.
  absl::Status AddText(const std::string& name_and_value);

  absl::Span<const PJRT_NamedValue> values() const { return values_; }

 private:
  PJRT_NamedValue& Add(std::string name, PJRT_NamedValue_Type type);

  std::deque<std::string> strings_;  // a deque: its strings never move
  std::vector<PJRT_NamedValue> values_;
};

}  // namespace shardway::device
