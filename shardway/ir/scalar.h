// Single elements of arrays: from numbers to bytes and back, for every element type. Bytes are the
// CPU's buffer form: little endian, a whole byte for sub-byte types.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shardway/base/element_type.h"

namespace shardway::ir {

// Converts like stablehlo.convert: nearest even for floats, modulo 2^bits for integers, and "not
// zero" for i1. Infinity becomes the largest finite value in formats without infinities, so that it
// still serves as the identity of a minimum or maximum. A complex gets a zero imaginary part.
// Empty for what is no number.
std::string ElementFromDouble(ElementType type, double value);
std::string ElementFromInt(ElementType type, int64_t value);

// The real value of the float element in `bytes` (ElementBytes(type) of them, real types only).
double DoubleFromElement(ElementType type, std::string_view bytes);
// The value of an integer or i1 element; ui64 above INT64_MAX wraps.
int64_t IntFromElement(ElementType type, std::string_view bytes);

}  // namespace shardway::ir
