// Floating-point formats of 16 bits and less: to float and back, rounding to nearest even. Written
// with integers, so that the thread's denormal mode does not matter and loops vectorise.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace shardway::comm {

// What a format does with its top codes, and where a value too large for it goes.
enum class Specials : uint8_t {
  kIeee,    // the top exponent holds infinity and NaNs; overflow is infinity
  kFn,      // finite; NaN is all ones; overflow is NaN
  kFnuz,    // finite; NaN is the code of negative zero; overflow is NaN
  kFinite,  // no NaN either: overflow saturates, NaN becomes negative zero
};

// Sign, kExponent bits with bias kBias, kMantissa bits; `Bits` is what a buffer holds per element.
template <typename Bits, int kExponent, int kMantissa, int kBias, Specials kSpecials>
struct NarrowFloat {
  using Storage = Bits;
  static constexpr int kSignShift = kExponent + kMantissa;
  static constexpr uint32_t kMagnitudeMask = (1u << kSignShift) - 1;
  static constexpr uint32_t kMantissaMask = (1u << kMantissa) - 1;
  static constexpr uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;  // kIeee only
  static constexpr uint32_t kMaxFinite = kSpecials == Specials::kIeee ? kInfinity - 1
                                         : kSpecials == Specials::kFn ? kMagnitudeMask - 1
                                                                      : kMagnitudeMask;

  static float Decode(Bits bits) {
    const uint32_t magnitude = bits & kMagnitudeMask;
    const uint32_t sign = static_cast<uint32_t>(bits >> kSignShift & 1) << 31;
    // Normal numbers move their exponent; subnormal ones are an integer times the smallest one.
    const uint32_t normal =
        (magnitude << (23 - kMantissa)) + (static_cast<uint32_t>(127 - kBias) << 23);
    const float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) *
                            std::bit_cast<float>((127u - kBias + 1 - kMantissa) << 23);
    uint32_t value = magnitude > kMantissaMask ? normal : std::bit_cast<uint32_t>(subnormal);
    constexpr uint32_t kNaN = 0x7fc00000;
    if constexpr (kSpecials == Specials::kIeee) {
      value = magnitude >= kInfinity ? 0x7f800000 | (magnitude & kMantissaMask) << (23 - kMantissa)
                                     : value;
    } else if constexpr (kSpecials == Specials::kFn) {
      value = magnitude == kMagnitudeMask ? kNaN : value;
    } else if constexpr (kSpecials == Specials::kFnuz) {
      if (magnitude == 0 && sign != 0) return std::bit_cast<float>(kNaN);
    }
    return std::bit_cast<float>(value | sign);
  }

  static Bits Encode(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (bits >> 31) << kSignShift;
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) {
      if constexpr (kSpecials == Specials::kIeee) {
        return static_cast<Bits>(sign | kInfinity | 1u << (kMantissa - 1));
      } else if constexpr (kSpecials == Specials::kFn) {
        return static_cast<Bits>(sign | kMagnitudeMask);
      } else {
        return static_cast<Bits>(1u << kSignShift);
      }
    }
    constexpr int kShift = 23 - kMantissa;
    const int exponent = static_cast<int>(magnitude >> 23) - 127 + kBias;  // in this format
    uint32_t code;
    if (exponent >= 1) {
      const uint32_t rebased = magnitude - (static_cast<uint32_t>(127 - kBias) << 23);
      code = (rebased + (1u << (kShift - 1)) - 1 + (rebased >> kShift & 1)) >> kShift;
    } else if (const int shift = kShift + 1 - exponent; shift > 25) {
      code = 0;
    } else {
      const uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
      code = (mantissa + (1u << (shift - 1)) - 1 + (mantissa >> shift & 1)) >> shift;
    }
    if (code > kMaxFinite) {
      if constexpr (kSpecials == Specials::kIeee) {
        code = kInfinity;
      } else if constexpr (kSpecials == Specials::kFn) {
        code = kMagnitudeMask;
      } else if constexpr (kSpecials == Specials::kFnuz) {
        return static_cast<Bits>(1u << kSignShift);
      } else {
        code = kMaxFinite;
      }
    }
    if (kSpecials == Specials::kFnuz && code == 0) return 0;
    return static_cast<Bits>(sign | code);
  }
};

using F16 = NarrowFloat<uint16_t, 5, 10, 15, Specials::kIeee>;
using F8E3M4 = NarrowFloat<uint8_t, 3, 4, 3, Specials::kIeee>;
using F8E4M3 = NarrowFloat<uint8_t, 4, 3, 7, Specials::kIeee>;
using F8E5M2 = NarrowFloat<uint8_t, 5, 2, 15, Specials::kIeee>;
using F8E4M3FN = NarrowFloat<uint8_t, 4, 3, 7, Specials::kFn>;
using F8E4M3FNUZ = NarrowFloat<uint8_t, 4, 3, 8, Specials::kFnuz>;
using F8E4M3B11FNUZ = NarrowFloat<uint8_t, 4, 3, 11, Specials::kFnuz>;
using F8E5M2FNUZ = NarrowFloat<uint8_t, 5, 2, 16, Specials::kFnuz>;
using F4E2M1FN = NarrowFloat<uint8_t, 2, 1, 1, Specials::kFinite>;
using F6E2M3FN = NarrowFloat<uint8_t, 2, 3, 1, Specials::kFinite>;
using F6E3M2FN = NarrowFloat<uint8_t, 3, 2, 3, Specials::kFinite>;

// The upper half of a float.
struct BF16 {
  using Storage = uint16_t;
  static float Decode(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
  static uint16_t Encode(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const uint32_t nan = bits >> 16 | 0x40;
    return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
  }
};

// A power of two: exponent only, no sign, no zero. Its smallest value is below float's normal
// range, so it computes in double.
struct F8E8M0FNU {
  using Storage = uint8_t;
  static double Decode(uint8_t bits) {
    return bits == 0xff ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, bits - 127);
  }
  static uint8_t Encode(double value) {
    if (std::isnan(value)) return 0xff;
    if (!(value > 0)) return 0;
    int exponent;
    const double fraction = std::frexp(value, &exponent);  // [0.5, 1)
    int code = exponent - 1 + 127;
    if (fraction > 0.75 || (fraction == 0.75 && code % 2 != 0)) ++code;
    return static_cast<uint8_t>(code < 0 ? 0 : code > 254 ? 0xff : code);
  }
};

}  // namespace shardway::comm
