#include "shardway/device/pjrt_types.h"

#include <utility>

namespace shardway::device {
namespace {

constexpr std::pair<ElementType, PJRT_Buffer_Type> kTypes[] = {
    {ElementType::kI1, PJRT_Buffer_Type_PRED},
    {ElementType::kI2, PJRT_Buffer_Type_S2},
    {ElementType::kI4, PJRT_Buffer_Type_S4},
    {ElementType::kI8, PJRT_Buffer_Type_S8},
    {ElementType::kI16, PJRT_Buffer_Type_S16},
    {ElementType::kI32, PJRT_Buffer_Type_S32},
    {ElementType::kI64, PJRT_Buffer_Type_S64},
    {ElementType::kUI2, PJRT_Buffer_Type_U2},
    {ElementType::kUI4, PJRT_Buffer_Type_U4},
    {ElementType::kUI8, PJRT_Buffer_Type_U8},
    {ElementType::kUI16, PJRT_Buffer_Type_U16},
    {ElementType::kUI32, PJRT_Buffer_Type_U32},
    {ElementType::kUI64, PJRT_Buffer_Type_U64},
    {ElementType::kBF16, PJRT_Buffer_Type_BF16},
    {ElementType::kF16, PJRT_Buffer_Type_F16},
    {ElementType::kF32, PJRT_Buffer_Type_F32},
    {ElementType::kF64, PJRT_Buffer_Type_F64},
    {ElementType::kF8E3M4, PJRT_Buffer_Type_F8E3M4},
    {ElementType::kF8E4M3, PJRT_Buffer_Type_F8E4M3},
    {ElementType::kF8E4M3FN, PJRT_Buffer_Type_F8E4M3FN},
    {ElementType::kF8E4M3FNUZ, PJRT_Buffer_Type_F8E4M3FNUZ},
    {ElementType::kF8E4M3B11FNUZ, PJRT_Buffer_Type_F8E4M3B11FNUZ},
    {ElementType::kF8E5M2, PJRT_Buffer_Type_F8E5M2},
    {ElementType::kF8E5M2FNUZ, PJRT_Buffer_Type_F8E5M2FNUZ},
    {ElementType::kF8E8M0FNU, PJRT_Buffer_Type_F8E8M0FNU},
    {ElementType::kF4E2M1FN, PJRT_Buffer_Type_F4E2M1FN},
    {ElementType::kC64, PJRT_Buffer_Type_C64},
    {ElementType::kC128, PJRT_Buffer_Type_C128},
};

}  // namespace

PJRT_Buffer_Type ToPjrtType(ElementType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == type) return theirs;
  }
  return PJRT_Buffer_Type_INVALID;
}

ElementType FromPjrtType(int type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  return ElementType::kInvalid;
}

}  // namespace shardway::device
