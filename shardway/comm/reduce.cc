#include "shardway/comm/reduce.h"

#include <algorithm>
#include <bit>
#include <complex>
#include <cstring>
#include <type_traits>

#include "shardway/comm/float_mode.h"
#include "shardway/comm/narrow_float.h"

namespace shardway::comm {
namespace {

using collective::Reduction;

// An element type: what a buffer holds (Storage), what is computed with (Value), and the way
// between.
template <typename T>
struct Plain {
  using Storage = T;
  using Value = T;
  static T Decode(T value) { return value; }
  static T Encode(T value) { return value; }
};
struct Bool {
  using Storage = uint8_t;
  using Value = bool;
  static bool Decode(uint8_t value) { return value != 0; }
  static uint8_t Encode(bool value) { return value; }
};
template <int kBits, bool kSigned>
struct SmallInteger {  // one per byte
  using Storage = uint8_t;
  using Value = std::conditional_t<kSigned, int8_t, uint8_t>;
  static Value Decode(uint8_t value) {
    return static_cast<Value>(static_cast<Value>(value << (8 - kBits)) >> (8 - kBits));
  }
  static uint8_t Encode(Value value) {
    return static_cast<uint8_t>(Decode(static_cast<uint8_t>(value)));
  }
};
template <typename Format>
struct Narrow {
  using Storage = typename Format::Storage;
  using Value = decltype(Format::Decode(0));
  static Value Decode(Storage value) { return Format::Decode(value); }
  static Storage Encode(Value value) { return Format::Encode(value); }
};

template <typename T>
constexpr bool kIsComplex = false;
template <typename T>
constexpr bool kIsComplex<std::complex<T>> = true;

// Integers wrap: they are added and multiplied unsigned.
template <typename T>
auto Wrapping(T value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    if constexpr (sizeof(T) <= 4) {
      return static_cast<uint32_t>(value);
    } else {
      return static_cast<uint64_t>(value);
    }
  } else {
    return value;
  }
}

struct Sum {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_same_v<T, bool>) return a | b;
    return static_cast<T>(Wrapping(a) + Wrapping(b));
  }
};

struct Product {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_same_v<T, bool>) {
      return a & b;
    } else if constexpr (kIsComplex<T>) {
      return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
    } else {
      return static_cast<T>(Wrapping(a) * Wrapping(b));
    }
  }
};

// Greater of two, or lesser: a NaN wins, and -0 is less than +0. Complex numbers are in
// lexicographic order.
template <bool kGreater>
struct Extreme {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (kIsComplex<T>) {
      if (a.real() != b.real()) return Of(a.real(), b.real()) == a.real() ? a : b;
      return Of(a.imag(), b.imag()) == a.imag() ? a : b;
    } else if constexpr (std::is_floating_point_v<T>) {
      using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
      const Bits a_bits = std::bit_cast<Bits>(a), b_bits = std::bit_cast<Bits>(b);
      const T equal = std::bit_cast<T>(kGreater ? a_bits & b_bits : a_bits | b_bits);
      T result = (kGreater ? a > b : a < b) ? a : b;
      result = a == b ? equal : result;
      return a != a ? a : result;
    } else {
      return (kGreater ? a > b : a < b) ? a : b;
    }
  }
};

struct And {
  template <typename T>
  static T Of(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <typename T>
  static T Of(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  static T Of(T a, T b) {
    return a ^ b;
  }
};

template <typename Element, typename Op>
void Reduce(absl::Span<const char* const> sources, int64_t count, char* destination) {
  using Storage = typename Element::Storage;
  using Value = typename Element::Value;
  constexpr int64_t kBlock = 4096 / sizeof(Value);  // stays in the first-level cache
  const ScopedXlaFloatMode float_mode;
  Value values[kBlock];
  for (int64_t start = 0; start < count; start += kBlock) {
    const int64_t n = std::min(kBlock, count - start);
    const auto* first = reinterpret_cast<const Storage*>(sources[0]) + start;
    for (int64_t i = 0; i < n; ++i) values[i] = Element::Decode(first[i]);
    for (size_t s = 1; s < sources.size(); ++s) {
      const auto* next = reinterpret_cast<const Storage*>(sources[s]) + start;
      for (int64_t i = 0; i < n; ++i) values[i] = Op::Of(values[i], Element::Decode(next[i]));
    }
    auto* out = reinterpret_cast<Storage*>(destination) + start;
    for (int64_t i = 0; i < n; ++i) out[i] = Element::Encode(values[i]);
  }
}

template <typename Element>
ReduceFunction Find(Reduction reduction) {
  using Value = typename Element::Value;
  switch (reduction) {
    case Reduction::kSum:
      return Reduce<Element, Sum>;
    case Reduction::kProduct:
      return Reduce<Element, Product>;
    case Reduction::kMin:
      return Reduce<Element, Extreme<false>>;
    case Reduction::kMax:
      return Reduce<Element, Extreme<true>>;
    default:
      break;
  }
  if constexpr (std::is_integral_v<Value>) {
    switch (reduction) {
      case Reduction::kAnd:
        return Reduce<Element, And>;
      case Reduction::kOr:
        return Reduce<Element, Or>;
      case Reduction::kXor:
        return Reduce<Element, Xor>;
      default:
        break;
    }
  }
  return nullptr;
}

}  // namespace

ReduceFunction FindReduce(ElementType element, Reduction reduction) {
  switch (element) {
    case ElementType::kInvalid:
      return nullptr;
    case ElementType::kI1:
      return Find<Bool>(reduction);
    case ElementType::kI2:
      return Find<SmallInteger<2, true>>(reduction);
    case ElementType::kI4:
      return Find<SmallInteger<4, true>>(reduction);
    case ElementType::kI8:
      return Find<Plain<int8_t>>(reduction);
    case ElementType::kI16:
      return Find<Plain<int16_t>>(reduction);
    case ElementType::kI32:
      return Find<Plain<int32_t>>(reduction);
    case ElementType::kI64:
      return Find<Plain<int64_t>>(reduction);
    case ElementType::kUI2:
      return Find<SmallInteger<2, false>>(reduction);
    case ElementType::kUI4:
      return Find<SmallInteger<4, false>>(reduction);
    case ElementType::kUI8:
      return Find<Plain<uint8_t>>(reduction);
    case ElementType::kUI16:
      return Find<Plain<uint16_t>>(reduction);
    case ElementType::kUI32:
      return Find<Plain<uint32_t>>(reduction);
    case ElementType::kUI64:
      return Find<Plain<uint64_t>>(reduction);
    case ElementType::kBF16:
      return Find<Narrow<BF16>>(reduction);
    case ElementType::kF16:
      return Find<Narrow<F16>>(reduction);
    case ElementType::kF32:
    case ElementType::kTF32:
      return Find<Plain<float>>(reduction);
    case ElementType::kF64:
      return Find<Plain<double>>(reduction);
    case ElementType::kF8E3M4:
      return Find<Narrow<F8E3M4>>(reduction);
    case ElementType::kF8E4M3:
      return Find<Narrow<F8E4M3>>(reduction);
    case ElementType::kF8E4M3FN:
      return Find<Narrow<F8E4M3FN>>(reduction);
    case ElementType::kF8E4M3FNUZ:
      return Find<Narrow<F8E4M3FNUZ>>(reduction);
    case ElementType::kF8E4M3B11FNUZ:
      return Find<Narrow<F8E4M3B11FNUZ>>(reduction);
    case ElementType::kF8E5M2:
      return Find<Narrow<F8E5M2>>(reduction);
    case ElementType::kF8E5M2FNUZ:
      return Find<Narrow<F8E5M2FNUZ>>(reduction);
    case ElementType::kF8E8M0FNU:
      return Find<Narrow<F8E8M0FNU>>(reduction);
    case ElementType::kF4E2M1FN:
      return Find<Narrow<F4E2M1FN>>(reduction);
    case ElementType::kF6E2M3FN:
      return Find<Narrow<F6E2M3FN>>(reduction);
    case ElementType::kF6E3M2FN:
      return Find<Narrow<F6E3M2FN>>(reduction);
    case ElementType::kC64:
      return Find<Plain<std::complex<float>>>(reduction);
    case ElementType::kC128:
      return Find<Plain<std::complex<double>>>(reduction);
  }
  return nullptr;
}

}  // namespace shardway::comm
