// ElementType ↔ PJRT_Buffer_Type.
#pragma once

#include <pjrt_c_api.h>

#include "shardway/base/element_type.h"

namespace shardway::device {

// PJRT_Buffer_Type_INVALID for types that PJRT has no name for (tf32, 6-bit floats).
PJRT_Buffer_Type ToPjrtType(ElementType type);
// kInvalid for types that are not arrays (tokens) and numbers from newer plugins.
ElementType FromPjrtType(int type);

}  // namespace shardway::device
