// What the shared library exports: the symbol by which frameworks find a PJRT plugin, and the
// functions that our Python package calls (host_callback.h).
#include <cstddef>
#include <cstdint>
#include <string>

#include "shardway/pjrt_plugin/api.h"
#include "shardway/pjrt_plugin/host_callback.h"

#define SHARDWAY_EXPORT extern "C" __attribute__((visibility("default")))

SHARDWAY_EXPORT const PJRT_Api* GetPjrtApi() { return shardway::pjrt_plugin::Api(); }

SHARDWAY_EXPORT void shardway_set_callback_dispatcher(
    shardway::pjrt_plugin::CallbackDispatcher dispatcher) {
  shardway::pjrt_plugin::SetCallbackDispatcher(dispatcher);
}

SHARDWAY_EXPORT void shardway_callback_retire(uint64_t callback,
                                              shardway::pjrt_plugin::CallbackRetired retired) {
  shardway::pjrt_plugin::RetireCallback(callback, retired);
}

SHARDWAY_EXPORT void shardway_callback_result(ShardwayCallbackReply* reply, const char* data,
                                              size_t size) {
  reply->results.emplace_back(data, size);
}

SHARDWAY_EXPORT void shardway_callback_error(ShardwayCallbackReply* reply, const char* message,
                                             size_t size) {
  reply->status = absl::InternalError(std::string(message, size));
}
