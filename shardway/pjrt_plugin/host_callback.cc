#include "shardway/pjrt_plugin/host_callback.h"

#include <atomic>
#include <utility>

struct ShardwayCallbackReply {
  std::vector<std::string> results;
  absl::Status status;
};

namespace {

using Dispatcher = void (*)(uint64_t id, int device, size_t num_operands,
                            const void* const* operands, const size_t* sizes,
                            ShardwayCallbackReply* reply);

std::atomic<Dispatcher> dispatcher{nullptr};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void shardway_set_callback_dispatcher(Dispatcher f) {
  dispatcher.store(f, std::memory_order_release);
}

__attribute__((visibility("default"))) void shardway_callback_result(ShardwayCallbackReply* reply,
                                                                     const void* data,
                                                                     size_t size) {
  reply->results.emplace_back(static_cast<const char*>(data), size);
}

__attribute__((visibility("default"))) void shardway_callback_error(ShardwayCallbackReply* reply,
                                                                    const char* message,
                                                                    size_t size) {
  reply->status = absl::InternalError(std::string(message, size));
}

}  // extern "C"

namespace shardway::pjrt_plugin {

absl::StatusOr<std::vector<std::string>> RunHostCallback(uint64_t callback, int device,
                                                         absl::Span<const std::string> operands) {
  const Dispatcher dispatch = dispatcher.load(std::memory_order_acquire);
  if (dispatch == nullptr) {
    return absl::UnavailableError(
        "a program calls back into Python, which has no dispatcher or is shutting down");
  }
  std::vector<const void*> data;
  std::vector<size_t> sizes;
  for (const std::string& operand : operands) {
    data.push_back(operand.data());
    sizes.push_back(operand.size());
  }
  ShardwayCallbackReply reply;
  dispatch(callback, device, operands.size(), data.data(), sizes.data(), &reply);
  if (!reply.status.ok()) return std::move(reply.status);
  return std::move(reply.results);
}

}  // namespace shardway::pjrt_plugin
