#include "shardway/worker/host_callback.h"

#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/comm/float_mode.h"
#include "shardway/wire/validate.h"
#include "xla/ffi/api/ffi.h"

namespace shardway::worker {
namespace {

namespace ffi = xla::ffi;

// XLA continues a program in the thread that completes its future.
constexpr int kContinuationThreads = 16;

std::atomic<HostCallbacks*> current{nullptr};

ffi::Error ToFfi(const absl::Status& status) {
  return ffi::Error(static_cast<XLA_FFI_Error_Code>(status.code()), std::string(status.message()));
}

}  // namespace

struct HostCallbacks::Pending {
  ffi::Promise promise;
  std::vector<absl::Span<char>> results;  // XLA's, valid until the promise is fulfilled
  SessionId session;
};

namespace {

ffi::Future Call(ffi::RunId run, int32_t device, int64_t callback, ffi::RemainingArgs arguments,
                 ffi::RemainingRets results) {
  auto pending = std::make_shared<HostCallbacks::Pending>();
  ffi::Future future(pending->promise);
  std::vector<std::string> operands;
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto buffer = arguments.get<ffi::AnyBuffer>(i);
    if (!buffer.has_value()) {
      pending->promise.SetError(buffer.error());
      return future;
    }
    operands.emplace_back(static_cast<const char*>(buffer->untyped_data()), buffer->size_bytes());
  }
  for (size_t i = 0; i < results.size(); ++i) {
    auto buffer = results.get<ffi::AnyBuffer>(i);
    if (!buffer.has_value()) {
      pending->promise.SetError(buffer.error());
      return future;
    }
    pending->results.emplace_back(static_cast<char*>((*buffer)->untyped_data()),
                                  (*buffer)->size_bytes());
  }
  HostCallbacks* callbacks = current.load(std::memory_order_acquire);
  if (callbacks == nullptr) {
    pending->promise.SetError(ffi::Error::Internal("this process takes no host callbacks"));
  } else {
    callbacks->Start(device, run.run_id, callback, std::move(operands), std::move(pending));
  }
  return future;
}

XLA_FFI_DEFINE_HANDLER(CallHandler, Call,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::RunId>()
                           .Ctx<ffi::DeviceOrdinal>()
                           .Attr<int64_t>("callback")
                           .RemainingArgs()
                           .RemainingRets());

}  // namespace

HostCallbacks::HostCallbacks(const HostTopology* topology, const LaunchRegistry* launches,
                             Outbox* outbox)
    : topology_(topology),
      launches_(launches),
      outbox_(outbox),
      pool_("callback", kContinuationThreads) {
  current.store(this, std::memory_order_release);
}

HostCallbacks::~HostCallbacks() { current.store(nullptr, std::memory_order_release); }

void* HostCallbacks::Handler() { return reinterpret_cast<void*>(CallHandler); }

void HostCallbacks::Start(int device_ordinal, int64_t launch, int64_t callback,
                          std::vector<std::string> operands, std::shared_ptr<Pending> pending) {
  const auto session = launches_->Find(static_cast<comm::LaunchId>(launch));
  if (!session.has_value() || device_ordinal < 0 || device_ordinal >= topology_->num_local()) {
    pending->promise.SetError(
        ffi::Error::Internal(absl::StrCat("a host callback came from launch ", launch, ", device ",
                                          device_ordinal, ", which is not running")));
    return;
  }
  pending->session = *session;
  wire::FromWorker message;
  wire::HostCallback* call = message.mutable_callback();
  call->set_session(session->value);
  call->set_callback(callback);
  call->set_device(topology_->local_devices[device_ordinal]);
  for (std::string& operand : operands) call->add_operands(std::move(operand));
  {
    MutexLock lock(mutex_);
    call->set_call(++last_call_);
    pending_[last_call_] = std::move(pending);
  }
  outbox_->Post(std::move(message));  // the channel may be full: not in a thread of XLA
}

void HostCallbacks::Return(const wire::CallbackReturn& message) {
  std::shared_ptr<Pending> pending;
  {
    MutexLock lock(mutex_);
    auto it = pending_.find(message.call());
    if (it == pending_.end()) return;
    pending = std::move(it->second);
    pending_.erase(it);
  }
  absl::Status status = wire::FromProto(message.status());
  if (status.ok() && static_cast<size_t>(message.results_size()) != pending->results.size()) {
    status =
        absl::InternalError(absl::StrCat("a host callback returned ", message.results_size(),
                                         " results, ", pending->results.size(), " are expected"));
  }
  for (int i = 0; status.ok() && i < message.results_size(); ++i) {
    const std::string& bytes = message.results(i);
    const absl::Span<char> place = pending->results[i];
    if (bytes.size() != place.size()) {
      status =
          absl::InternalError(absl::StrCat("result ", i, " of a host callback has ", bytes.size(),
                                           " bytes, ", place.size(), " are expected"));
    } else if (!bytes.empty()) {
      std::memcpy(place.data(), bytes.data(), bytes.size());
    }
  }
  Complete(std::move(pending), std::move(status));
}

void HostCallbacks::Cancel(SessionId session) {
  std::vector<std::shared_ptr<Pending>> cancelled;
  {
    MutexLock lock(mutex_);
    for (auto it = pending_.begin(); it != pending_.end();) {
      auto here = it++;
      if (here->second->session != session) continue;
      cancelled.push_back(std::move(here->second));
      pending_.erase(here);
    }
  }
  for (auto& pending : cancelled) {
    Complete(std::move(pending), absl::CancelledError("the session of a host callback ended"));
  }
}

void HostCallbacks::Complete(std::shared_ptr<Pending> pending, absl::Status status) {
  pool_.Submit([pending = std::move(pending), status = std::move(status)] {
    const comm::ScopedXlaFloatMode float_mode;
    if (status.ok()) {
      pending->promise.SetAvailable();
    } else {
      pending->promise.SetError(ToFfi(status));
    }
  });
}

}  // namespace shardway::worker
