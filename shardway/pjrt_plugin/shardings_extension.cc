// Shardings: what the compiler chose for each parameter and result, as serialized xla.OpSharding.
#include "shardway/pjrt_plugin/executable.h"
#include "shardway/pjrt_plugin/extensions.h"

namespace shardway::pjrt_plugin {
namespace {

constexpr auto kType = static_cast<PJRT_Extension_Type>(19);

struct ShardingsArgs {  // of parameters and of results alike
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t count;                  // out
  const char* const* shardings;  // out, lives as long as the executable
  const size_t* sizes;           // out
};

struct Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*parameters)(ShardingsArgs*);
  PJRT_Error* (*results)(ShardingsArgs*);
};

PJRT_Error* OfParameters(ShardingsArgs* args) {
  const ProgramInfo& info = *args->executable->info;
  args->count = info.parameter_shardings.size();
  args->shardings = info.parameter_shardings.data();
  args->sizes = info.parameter_sharding_sizes.data();
  return nullptr;
}

PJRT_Error* OfResults(ShardingsArgs* args) {
  const ProgramInfo& info = *args->executable->info;
  args->count = info.result_shardings.size();
  args->shardings = info.result_shardings.data();
  args->sizes = info.result_sharding_sizes.data();
  return nullptr;
}

}  // namespace

PJRT_Extension_Base* ShardingsExtension(PJRT_Extension_Base* next) {
  static Extension extension{
      .base = {sizeof(Extension), kType, nullptr},
      .parameters = OfParameters,
      .results = OfResults,
  };
  extension.base.next = next;
  return &extension.base;
}

}  // namespace shardway::pjrt_plugin
