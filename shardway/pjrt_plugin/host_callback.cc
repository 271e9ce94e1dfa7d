#include "shardway/pjrt_plugin/host_callback.h"

#include <atomic>
#include <memory>
#include <utility>

#include "shardway/pjrt_plugin/client.h"

namespace shardway::pjrt_plugin {
namespace {

std::atomic<CallbackDispatcher> dispatcher{nullptr};

}  // namespace

void RetireCallback(uint64_t callback, CallbackRetired retired) {
  struct Last {
    uint64_t callback;
    CallbackRetired retired;
    ~Last() {
      if (dispatcher.load(std::memory_order_acquire) != nullptr) retired(callback);
    }
  };
  const auto last = std::shared_ptr<Last>(new Last{callback, retired});
  ForEachSession([&](client::Session& session) { session.OnAllEnded([last] {}); });
}

void SetCallbackDispatcher(CallbackDispatcher f) { dispatcher.store(f, std::memory_order_release); }

absl::StatusOr<std::vector<std::string>> RunHostCallback(uint64_t callback, int device,
                                                         absl::Span<const std::string> operands) {
  const CallbackDispatcher dispatch = dispatcher.load(std::memory_order_acquire);
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
