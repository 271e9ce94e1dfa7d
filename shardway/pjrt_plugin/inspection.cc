#include "shardway/pjrt_plugin/inspection.h"

#include <cstring>
#include <string>

#include "shardway/base/logging.h"

namespace shardway::pjrt_plugin {
namespace {

// jaxlib's own protocol between its Python layer and a compiler: these two are C structures whose
// fields are fixed; the second one's bytes are the custom call's configuration.
extern "C" {
struct InspectionArgs {
  char* sharding_spec;  // serialized xla.OpSharding
  size_t sharding_spec_size;
  const char* error_txt;  // out; null: all went well
  void* error_scratch;
  void (*free_error)(InspectionArgs* args);
};
struct InspectionCallback {
  void (*call)(void* data, InspectionArgs* args);
  void* data;
};
}

}  // namespace

void TellInspections(std::string_view artifact,
                     const std::vector<client::Inspection>& inspections) {
  for (const client::Inspection& inspection : inspections) {
    InspectionCallback callback;
    if (inspection.callback.size() != sizeof(callback) ||
        artifact.find(inspection.callback) == artifact.npos) {
      LOG_WARN("a sharding is to be inspected by a callback that the program does not name");
      continue;
    }
    std::memcpy(&callback, inspection.callback.data(), sizeof(callback));
    if (callback.call == nullptr) continue;
    std::string sharding = inspection.op_sharding;
    InspectionArgs args{.sharding_spec = sharding.data(), .sharding_spec_size = sharding.size()};
    callback.call(callback.data, &args);
    if (args.error_txt == nullptr) continue;
    LOG_WARN("inspecting a sharding: {}", args.error_txt);
    if (args.free_error != nullptr) args.free_error(&args);
  }
}

}  // namespace shardway::pjrt_plugin
