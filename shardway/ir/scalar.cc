#include "shardway/ir/scalar.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace shardway::ir {
namespace {

// How a small float format treats its extreme codes.
enum class Special : uint8_t {
  kIeee,     // top exponent: infinities and NaNs
  kNanOnly,  // all ones is the only NaN, no infinity ("FN")
  kNegZero,  // the code of -0 is the only NaN, no infinity ("FNUZ")
  kNone,     // every code is a finite number
};

struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Special special;
};

Format FormatOf(ElementType type) {
  switch (type) {
    case ElementType::kBF16:
      return {8, 7, 127, Special::kIeee};
    case ElementType::kF16:
      return {5, 10, 15, Special::kIeee};
    case ElementType::kF8E3M4:
      return {3, 4, 3, Special::kIeee};
    case ElementType::kF8E4M3:
      return {4, 3, 7, Special::kIeee};
    case ElementType::kF8E4M3FN:
      return {4, 3, 7, Special::kNanOnly};
    case ElementType::kF8E4M3FNUZ:
      return {4, 3, 8, Special::kNegZero};
    case ElementType::kF8E4M3B11FNUZ:
      return {4, 3, 11, Special::kNegZero};
    case ElementType::kF8E5M2:
      return {5, 2, 15, Special::kIeee};
    case ElementType::kF8E5M2FNUZ:
      return {5, 2, 16, Special::kNegZero};
    case ElementType::kF4E2M1FN:
      return {2, 1, 1, Special::kNone};
    case ElementType::kF6E2M3FN:
      return {2, 3, 1, Special::kNone};
    default:  // kF6E3M2FN
      return {3, 2, 3, Special::kNone};
  }
}

uint32_t SignBit(const Format& f) { return 1u << (f.exponent_bits + f.mantissa_bits); }

uint32_t LargestFinite(const Format& f) {
  const uint32_t all = SignBit(f) - 1;
  switch (f.special) {
    case Special::kIeee:
      return all - (1u << f.mantissa_bits);
    case Special::kNanOnly:
      return all - 1;
    case Special::kNegZero:
    case Special::kNone:
      break;
  }
  return all;
}

uint32_t EncodeSmall(const Format& f, double value) {
  const uint32_t sign = std::signbit(value) ? SignBit(f) : 0;
  const uint32_t all = SignBit(f) - 1;
  if (std::isnan(value)) {
    switch (f.special) {
      case Special::kIeee:
        return all - (1u << f.mantissa_bits) + 1 + (1u << (f.mantissa_bits - 1)) - 1 + sign;
      case Special::kNanOnly:
        return all | sign;
      case Special::kNegZero:
        return SignBit(f);
      case Special::kNone:
        return LargestFinite(f);
    }
  }
  const uint32_t largest = LargestFinite(f);
  if (std::isinf(value)) return (f.special == Special::kIeee ? largest + 1 : largest) | sign;
  // Codes of positive numbers are in the order of the numbers, so one unit in the last place above
  // the largest finite code is where overflow begins.
  const double magnitude = std::fabs(value);
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude in [2^(exponent-1), 2^exponent)
  const int unit = std::max(exponent - 1, 1 - f.bias) - f.mantissa_bits;
  const double scaled = std::nearbyint(std::ldexp(magnitude, -unit));
  // scaled counts units in the last place; for normal numbers it is in [2^m, 2^(m+1)].
  const int64_t biased = std::max(exponent - 1 + f.bias, 1);
  int64_t code =
      magnitude == 0 ? 0 : ((biased - 1) << f.mantissa_bits) + static_cast<int64_t>(scaled);
  if (code > largest) {
    if (f.special == Special::kIeee) return (largest + 1) | sign;
    if (f.special == Special::kNanOnly) return all | sign;
    if (f.special == Special::kNegZero) return SignBit(f);
    code = largest;
  }
  if (code == 0 && f.special == Special::kNegZero) return 0;
  return static_cast<uint32_t>(code) | sign;
}

double DecodeSmall(const Format& f, uint32_t bits) {
  const uint32_t magnitude = bits & (SignBit(f) - 1);
  const bool negative = (bits & SignBit(f)) != 0;
  if (f.special == Special::kNegZero && negative && magnitude == 0) return std::nan("");
  if (magnitude > LargestFinite(f)) {
    if (f.special == Special::kIeee && magnitude == LargestFinite(f) + 1) {
      return negative ? -INFINITY : INFINITY;
    }
    return std::nan("");
  }
  const int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  const uint32_t fraction = magnitude & ((1u << f.mantissa_bits) - 1);
  const double value = exponent == 0 ? std::ldexp(fraction, 1 - f.bias - f.mantissa_bits)
                                     : std::ldexp(fraction + (1u << f.mantissa_bits),
                                                  exponent - f.bias - f.mantissa_bits);
  return negative ? -value : value;
}

template <typename T>
std::string Bytes(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
}

uint64_t Low(std::string_view bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof(word)));
  return word;
}

}  // namespace

std::string ElementFromDouble(ElementType type, double value) {
  switch (type) {
    case ElementType::kF64:
      return Bytes(value);
    case ElementType::kF32:
    case ElementType::kTF32:
      return Bytes(static_cast<float>(value));
    case ElementType::kC64:
      return Bytes(static_cast<float>(value)) + Bytes(0.0f);
    case ElementType::kC128:
      return Bytes(value) + Bytes(0.0);
    case ElementType::kF8E8M0FNU: {
      if (!(value > 0)) return std::string(1, std::isnan(value) ? '\xff' : '\0');
      if (std::isinf(value)) return std::string(1, '\xfe');
      const auto exponent = static_cast<int>(std::nearbyint(std::log2(value))) + 127;
      return std::string(1, static_cast<char>(std::min(std::max(exponent, 0), 254)));
    }
    case ElementType::kI1:
      return std::string(1, value != 0 ? '\1' : '\0');
    default:
      break;
  }
  if (IsFloat(type)) {
    const uint32_t bits = EncodeSmall(FormatOf(type), value);
    return ElementBytes(type) == 2 ? Bytes(static_cast<uint16_t>(bits))
                                   : std::string(1, static_cast<char>(bits));
  }
  if (type == ElementType::kUI64 && value >= 9.2e18) {
    return Bytes(value >= 18446744073709551615.0 ? UINT64_MAX : static_cast<uint64_t>(value));
  }
  if (!IsInteger(type)) return {};
  if (value >= 9223372036854775807.0) return ElementFromInt(type, INT64_MAX);
  if (!(value >= -9223372036854775808.0)) return ElementFromInt(type, INT64_MIN);
  return ElementFromInt(type, static_cast<int64_t>(value));
}

std::string ElementFromInt(ElementType type, int64_t value) {
  if (type == ElementType::kI1) return std::string(1, value != 0 ? '\1' : '\0');
  if (!IsInteger(type)) return ElementFromDouble(type, static_cast<double>(value));
  const int bits = ElementBits(type);
  if (bits < 8) value &= (1 << bits) - 1;
  return Bytes(value).substr(0, ElementBytes(type));
}

double DoubleFromElement(ElementType type, std::string_view bytes) {
  const uint64_t low = Low(bytes);
  switch (type) {
    case ElementType::kF64:
      return std::bit_cast<double>(low);
    case ElementType::kF32:
    case ElementType::kTF32:
      return std::bit_cast<float>(static_cast<uint32_t>(low));
    case ElementType::kF8E8M0FNU:
      return (low & 0xff) == 0xff ? std::nan("")
                                  : std::ldexp(1.0, static_cast<int>(low & 0xff) - 127);
    default:
      break;
  }
  if (IsFloat(type)) {
    const int bits = ElementBits(type);
    return DecodeSmall(FormatOf(type), static_cast<uint32_t>(low & ((1u << bits) - 1)));
  }
  return type == ElementType::kUI64 ? static_cast<double>(low)
                                    : static_cast<double>(IntFromElement(type, bytes));
}

int64_t IntFromElement(ElementType type, std::string_view bytes) {
  const uint64_t low = Low(bytes);
  if (type == ElementType::kI1) return (low & 1) != 0;
  const int unused = 64 - ElementBits(type);
  if (unused <= 0) return static_cast<int64_t>(low);
  const uint64_t shifted = low << unused;
  return IsSignedInteger(type) ? static_cast<int64_t>(shifted) >> unused
                               : static_cast<int64_t>(shifted >> unused);
}

}  // namespace shardway::ir
