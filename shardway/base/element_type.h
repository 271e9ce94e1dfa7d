// Element types of arrays, one list for the whole system. The names are StableHLO's ("f32",
// "ui8", "complex<f64>"); quantized types are not among them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardway {

enum class ElementType : uint8_t {
  kInvalid = 0,
  kI1,
  kI2,
  kI4,
  kI8,
  kI16,
  kI32,
  kI64,
  kUI2,
  kUI4,
  kUI8,
  kUI16,
  kUI32,
  kUI64,
  kBF16,
  kF16,
  kF32,
  kF64,
  kTF32,
  kF8E3M4,
  kF8E4M3,
  kF8E4M3FN,
  kF8E4M3FNUZ,
  kF8E4M3B11FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0FNU,
  kF4E2M1FN,
  kF6E2M3FN,
  kF6E3M2FN,
  kC64,   // complex<f32>
  kC128,  // complex<f64>
};
inline constexpr int kNumElementTypes = static_cast<int>(ElementType::kC128) + 1;

// StableHLO's spelling, e.g. "bf16", "complex<f32>". "invalid" for kInvalid.
std::string_view ElementTypeName(ElementType type);
// The inverse; nullopt for a spelling that is not an element type.
std::optional<ElementType> ElementTypeFromName(std::string_view name);

// Bits of one element: 1 for i1, 4 for i4, 128 for complex<f64>.
int ElementBits(ElementType type);
// Bytes of one element in a buffer of the CPU: every sub-byte type takes a whole byte there.
int ElementBytes(ElementType type);

bool IsFloat(ElementType type);  // any real floating-point type
bool IsComplex(ElementType type);
// Of what the halves of a complex number are, and back; other types as they are.
ElementType RealOf(ElementType type);
ElementType ComplexOf(ElementType type);
bool IsSignedInteger(ElementType type);    // i2..i64
bool IsUnsignedInteger(ElementType type);  // ui2..ui64
inline bool IsInteger(ElementType type) { return IsSignedInteger(type) || IsUnsignedInteger(type); }

}  // namespace shardway
