// PJRT_NamedValue: how attributes of plugins, devices and programs, and options, cross the
// boundary. The values here only point to what they name; the owner keeps names and contents alive.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/types/span.h"
#include "pjrt_c_api.h"

namespace shardway::pjrt_plugin {

PJRT_NamedValue NamedString(std::string_view name, std::string_view value);
PJRT_NamedValue NamedInt(std::string_view name, int64_t value);
PJRT_NamedValue NamedInts(std::string_view name, absl::Span<const int64_t> values);
PJRT_NamedValue NamedFloat(std::string_view name, float value);
PJRT_NamedValue NamedBool(std::string_view name, bool value);

}  // namespace shardway::pjrt_plugin
