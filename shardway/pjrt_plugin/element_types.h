// Element types of the PJRT C API and ours.
#pragma once

#include "absl/status/statusor.h"
#include "pjrt_c_api.h"
#include "shardway/base/element_type.h"

namespace shardway::pjrt_plugin {

// `type`: of PJRT_Buffer_Type, or newer. UNIMPLEMENTED for a type that only one side knows.
absl::StatusOr<ElementType> FromPjrt(int type);
// PJRT_Buffer_Type_INVALID when PJRT has no such type.
PJRT_Buffer_Type ToPjrt(ElementType type);

}  // namespace shardway::pjrt_plugin
