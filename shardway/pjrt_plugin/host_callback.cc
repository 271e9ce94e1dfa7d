#include "shardway/pjrt_plugin/host_callback.h"

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "shardway/client/quiet_thread.h"
#include "shardway/pjrt_plugin/client.h"

namespace shardway::pjrt_plugin {
namespace {

std::atomic<CallbackDispatcher> dispatcher{nullptr};

}  // namespace

void RetireCallback(uint64_t callback, CallbackRetired retired) {
  struct Last {
    uint64_t callback;
    CallbackRetired retired;
    std::thread::id caller;
    ~Last() {
      const auto tell = [callback = callback, retired = retired] {
        if (dispatcher.load(std::memory_order_acquire) != nullptr) retired(callback);
      };
      // Elsewhere this is the thread that reads what the controller says. It must not wait for
      // Python's lock, which may be held by someone who waits for what it reads.
      if (std::this_thread::get_id() == caller) {
        tell();
      } else {
        client::StartQuietThread("shardway call", tell).detach();
      }
    }
  };
  const auto last = std::shared_ptr<Last>(new Last{callback, retired, std::this_thread::get_id()});
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
