#include "shardway/device/pjrt_named_values.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace shardway::device {

PJRT_NamedValue& NamedValues::Add(std::string name, PJRT_NamedValue_Type type) {
  values_.erase(std::remove_if(values_.begin(), values_.end(),
                               [&](const PJRT_NamedValue& value) {
                                 return std::string_view(value.name, value.name_size) == name;
                               }),
                values_.end());
  strings_.push_back(std::move(name));
  PJRT_NamedValue value = {};
  value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  value.name = strings_.back().data();
  value.name_size = strings_.back().size();
  value.type = type;
  value.value_size = 1;
  values_.push_back(value);
  return values_.back();
}

void NamedValues::AddInt(std::string name, int64_t value) {
  Add(std::move(name), PJRT_NamedValue_kInt64).int64_value = value;
}

absl::Status NamedValues::AddText(const std::string& name_and_value) {
  const size_t equals = name_and_value.find('=');
  if (equals == std::string::npos || equals == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("plugin option \"", name_and_value, "\" is not of the form name=value"));
  }
  std::string name = name_and_value.substr(0, equals);
  const std::string value = name_and_value.substr(equals + 1);
  int64_t integer = 0;
  float real = 0;
  if (value == "true" || value == "false") {
    Add(std::move(name), PJRT_NamedValue_kBool).bool_value = value == "true";
  } else if (absl::SimpleAtoi(value, &integer)) {
    Add(std::move(name), PJRT_NamedValue_kInt64).int64_value = integer;
  } else if (absl::SimpleAtof(value, &real)) {
    Add(std::move(name), PJRT_NamedValue_kFloat).float_value = real;
  } else {
    strings_.push_back(value);
    const std::string& kept = strings_.back();
    PJRT_NamedValue& added = Add(std::move(name), PJRT_NamedValue_kString);
    added.string_value = kept.c_str();
    added.value_size = kept.size();
  }
  return absl::OkStatus();
}

}  // namespace shardway::device
