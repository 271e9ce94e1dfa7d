// Enumerators that another library wrote: a newer one than the header that we build against may
// have values that the C++ enum does not, which must not be loaded as that enum.
#pragma once

#include <cstring>
#include <type_traits>

namespace shardway {

// The number in `value`, whether or not it is an enumerator.
template <typename Enum>
int RawEnum(const Enum& value) {
  static_assert(std::is_enum_v<Enum> && sizeof(Enum) == sizeof(int));
  int number;
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

}  // namespace shardway
