#include "shardway/client/callback_threads.h"

#include <utility>

#include "shardway/client/quiet_thread.h"
#include "shardway/wire/validate.h"

namespace shardway::client {

void CallbackThreads::SetHandler(CallbackHandler handler) {
  MutexLock lock(mutex_);
  handler_ = std::move(handler);
}

void CallbackThreads::Call(wire::Callback call) {
  MutexLock lock(mutex_);
  if (stopped_) return;
  queue_.push_back(std::move(call));
  if (static_cast<int>(queue_.size()) > idle_ && threads_ < kMaxThreads) {
    ++threads_;
    StartQuietThread("shardway call", [self = shared_from_this()] { self->ThreadMain(); }).detach();
  } else {
    work_.NotifyOne();
  }
}

void CallbackThreads::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  queue_.clear();
  handler_ = nullptr;
  work_.NotifyAll();
}

void CallbackThreads::ThreadMain() {
  mutex_.Lock();
  while (!stopped_) {
    if (queue_.empty()) {
      ++idle_;
      work_.Wait(mutex_);
      --idle_;
      continue;
    }
    const wire::Callback call = std::move(queue_.front());
    queue_.pop_front();
    const CallbackHandler handler = handler_;
    mutex_.Unlock();
    reply_(Answer(call, handler));
    mutex_.Lock();
  }
  mutex_.Unlock();
}

wire::ClientMessage CallbackThreads::Answer(const wire::Callback& call,
                                            const CallbackHandler& handler) const {
  wire::ClientMessage message;
  wire::CallbackReturn* answer = message.mutable_callback_return();
  answer->set_call(call.call());
  if (!handler) {
    wire::ToProto(absl::FailedPreconditionError("a program calls back to its client, which has no "
                                                "handler for callbacks in this process"),
                  answer->mutable_status());
    return message;
  }
  const std::vector<std::string> operands(call.operands().begin(), call.operands().end());
  absl::StatusOr<std::vector<std::string>> results =
      handler(call.callback(), call.device(), operands);
  if (!results.ok()) {
    wire::ToProto(results.status(), answer->mutable_status());
    return message;
  }
  for (std::string& result : *results) answer->add_results(std::move(result));
  return message;
}

}  // namespace shardway::client
