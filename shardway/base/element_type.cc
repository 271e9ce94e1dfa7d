#include "shardway/base/element_type.h"

#include <array>
#include <cstddef>

namespace shardway {
namespace {

enum class Class : uint8_t { kNone, kBool, kSigned, kUnsigned, kFloat, kComplex };

struct Info {
  std::string_view name;
  int bits;
  Class cls;
};

// Indexed by ElementType.
constexpr std::array<Info, kNumElementTypes> kInfo = {{
    {"invalid", 0, Class::kNone},
    {"i1", 1, Class::kBool},
    {"i2", 2, Class::kSigned},
    {"i4", 4, Class::kSigned},
    {"i8", 8, Class::kSigned},
    {"i16", 16, Class::kSigned},
    {"i32", 32, Class::kSigned},
    {"i64", 64, Class::kSigned},
    {"ui2", 2, Class::kUnsigned},
    {"ui4", 4, Class::kUnsigned},
    {"ui8", 8, Class::kUnsigned},
    {"ui16", 16, Class::kUnsigned},
    {"ui32", 32, Class::kUnsigned},
    {"ui64", 64, Class::kUnsigned},
    {"bf16", 16, Class::kFloat},
    {"f16", 16, Class::kFloat},
    {"f32", 32, Class::kFloat},
    {"f64", 64, Class::kFloat},
    {"tf32", 32, Class::kFloat},
    {"f8E3M4", 8, Class::kFloat},
    {"f8E4M3", 8, Class::kFloat},
    {"f8E4M3FN", 8, Class::kFloat},
    {"f8E4M3FNUZ", 8, Class::kFloat},
    {"f8E4M3B11FNUZ", 8, Class::kFloat},
    {"f8E5M2", 8, Class::kFloat},
    {"f8E5M2FNUZ", 8, Class::kFloat},
    {"f8E8M0FNU", 8, Class::kFloat},
    {"f4E2M1FN", 4, Class::kFloat},
    {"f6E2M3FN", 6, Class::kFloat},
    {"f6E3M2FN", 6, Class::kFloat},
    {"complex<f32>", 64, Class::kComplex},
    {"complex<f64>", 128, Class::kComplex},
}};

const Info& InfoOf(ElementType type) {
  const auto index = static_cast<size_t>(type);
  return kInfo[index < kInfo.size() ? index : 0];
}

}  // namespace

std::string_view ElementTypeName(ElementType type) { return InfoOf(type).name; }

std::optional<ElementType> ElementTypeFromName(std::string_view name) {
  for (size_t i = 1; i < kInfo.size(); ++i) {
    if (kInfo[i].name == name) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

int ElementBits(ElementType type) { return InfoOf(type).bits; }
int ElementBytes(ElementType type) { return (InfoOf(type).bits + 7) / 8; }
bool IsFloat(ElementType type) { return InfoOf(type).cls == Class::kFloat; }
bool IsComplex(ElementType type) { return InfoOf(type).cls == Class::kComplex; }

ElementType RealOf(ElementType type) {
  if (type == ElementType::kC64) return ElementType::kF32;
  return type == ElementType::kC128 ? ElementType::kF64 : type;
}

ElementType ComplexOf(ElementType type) {
  if (type == ElementType::kF32) return ElementType::kC64;
  return type == ElementType::kF64 ? ElementType::kC128 : type;
}

bool IsSignedInteger(ElementType type) { return InfoOf(type).cls == Class::kSigned; }
bool IsUnsignedInteger(ElementType type) { return InfoOf(type).cls == Class::kUnsigned; }

}  // namespace shardway
