#include "shardway/pjrt_plugin/named_value.h"

namespace shardway::pjrt_plugin {
namespace {

PJRT_NamedValue Named(std::string_view name, PJRT_NamedValue_Type type, size_t size) {
  PJRT_NamedValue value{};
  value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  value.name = name.data();
  value.name_size = name.size();
  value.type = type;
  value.value_size = size;
  return value;
}

}  // namespace

PJRT_NamedValue NamedString(std::string_view name, std::string_view text) {
  PJRT_NamedValue value = Named(name, PJRT_NamedValue_kString, text.size());
  value.string_value = text.data();
  return value;
}

PJRT_NamedValue NamedInt(std::string_view name, int64_t number) {
  PJRT_NamedValue value = Named(name, PJRT_NamedValue_kInt64, 1);
  value.int64_value = number;
  return value;
}

PJRT_NamedValue NamedInts(std::string_view name, absl::Span<const int64_t> numbers) {
  PJRT_NamedValue value = Named(name, PJRT_NamedValue_kInt64List, numbers.size());
  value.int64_array_value = numbers.data();
  return value;
}

PJRT_NamedValue NamedFloat(std::string_view name, float number) {
  PJRT_NamedValue value = Named(name, PJRT_NamedValue_kFloat, 1);
  value.float_value = number;
  return value;
}

PJRT_NamedValue NamedBool(std::string_view name, bool flag) {
  PJRT_NamedValue value = Named(name, PJRT_NamedValue_kBool, 1);
  value.bool_value = flag;
  return value;
}

}  // namespace shardway::pjrt_plugin
