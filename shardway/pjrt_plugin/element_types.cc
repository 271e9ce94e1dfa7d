#include "shardway/pjrt_plugin/element_types.h"

#include "absl/strings/str_cat.h"

namespace shardway::pjrt_plugin {
namespace {

struct Pair {
  PJRT_Buffer_Type pjrt;
  ElementType ours;
};

constexpr Pair kPairs[] = {
    {PJRT_Buffer_Type_PRED, ElementType::kI1},
    {PJRT_Buffer_Type_S2, ElementType::kI2},
    {PJRT_Buffer_Type_S4, ElementType::kI4},
    {PJRT_Buffer_Type_S8, ElementType::kI8},
    {PJRT_Buffer_Type_S16, ElementType::kI16},
    {PJRT_Buffer_Type_S32, ElementType::kI32},
    {PJRT_Buffer_Type_S64, ElementType::kI64},
    {PJRT_Buffer_Type_U2, ElementType::kUI2},
    {PJRT_Buffer_Type_U4, ElementType::kUI4},
    {PJRT_Buffer_Type_U8, ElementType::kUI8},
    {PJRT_Buffer_Type_U16, ElementType::kUI16},
    {PJRT_Buffer_Type_U32, ElementType::kUI32},
    {PJRT_Buffer_Type_U64, ElementType::kUI64},
    {PJRT_Buffer_Type_BF16, ElementType::kBF16},
    {PJRT_Buffer_Type_F16, ElementType::kF16},
    {PJRT_Buffer_Type_F32, ElementType::kF32},
    {PJRT_Buffer_Type_F64, ElementType::kF64},
    {PJRT_Buffer_Type_C64, ElementType::kC64},
    {PJRT_Buffer_Type_C128, ElementType::kC128},
    {PJRT_Buffer_Type_F8E3M4, ElementType::kF8E3M4},
    {PJRT_Buffer_Type_F8E4M3, ElementType::kF8E4M3},
    {PJRT_Buffer_Type_F8E4M3FN, ElementType::kF8E4M3FN},
    {PJRT_Buffer_Type_F8E4M3FNUZ, ElementType::kF8E4M3FNUZ},
    {PJRT_Buffer_Type_F8E4M3B11FNUZ, ElementType::kF8E4M3B11FNUZ},
    {PJRT_Buffer_Type_F8E5M2, ElementType::kF8E5M2},
    {PJRT_Buffer_Type_F8E5M2FNUZ, ElementType::kF8E5M2FNUZ},
    {PJRT_Buffer_Type_F8E8M0FNU, ElementType::kF8E8M0FNU},
    {PJRT_Buffer_Type_F4E2M1FN, ElementType::kF4E2M1FN},
};

}  // namespace

absl::StatusOr<ElementType> FromPjrt(int type) {
  for (const Pair& pair : kPairs) {
    if (pair.pjrt == type) return pair.ours;
  }
  return absl::UnimplementedError(
      absl::StrCat("arrays of PJRT element type ", type, " are not supported"));
}

PJRT_Buffer_Type ToPjrt(ElementType type) {
  for (const Pair& pair : kPairs) {
    if (pair.ours == type) return pair.pjrt;
  }
  return PJRT_Buffer_Type_INVALID;
}

}  // namespace shardway::pjrt_plugin
