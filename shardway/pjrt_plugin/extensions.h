// Extensions of the PJRT C API that JAX looks for: Layouts, Shardings and FFI, in one chain.
//
// The plugin header that we build against has only their numbers; the structures are declared where
// they are filled in, from the published interface (field order and types are its facts).
#pragma once

#include "pjrt_c_api.h"

namespace shardway::pjrt_plugin {

// Each starts with a PJRT_Extension_Base and is linked to `next`. Static storage.
PJRT_Extension_Base* LayoutsExtension(PJRT_Extension_Base* next);
PJRT_Extension_Base* ShardingsExtension(PJRT_Extension_Base* next);
PJRT_Extension_Base* FfiExtension(PJRT_Extension_Base* next);

// The context of an execution, onto which FFI user data is hung: JAX makes one for every execution.
PJRT_Error* ExecuteContextCreate(PJRT_ExecuteContext_Create_Args* args);
PJRT_Error* ExecuteContextDestroy(PJRT_ExecuteContext_Destroy_Args* args);

}  // namespace shardway::pjrt_plugin
