#include "shardway/worker/host_callback.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/comm/ffi_version.h"
#include "shardway/comm/float_mode.h"
#include "shardway/comm/run_id.h"
#include "shardway/wire/validate.h"
#include "xla/ffi/api/ffi.h"

namespace shardway::worker {
namespace {

namespace ffi = xla::ffi;

// How often late calls are looked for.
Duration LookInterval(Duration timeout) {
  return std::clamp<Duration>(timeout / 8, std::chrono::milliseconds(5), std::chrono::seconds(5));
}

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
  int device = -1;   // ordinal
  std::string name;  // of the function; may be empty
  TimePoint since{};
};

namespace {

ffi::Future Call(ffi::RunId run, ffi::Dictionary attributes, ffi::RemainingArgs arguments,
                 ffi::RemainingRets results) {
  auto pending = std::make_shared<HostCallbacks::Pending>();
  const comm::RunId id = comm::ParseRunId(run.run_id);
  pending->device = id.ordinal;
  ffi::Future future(pending->promise);
  const auto callback = attributes.get<int64_t>("callback");
  if (!callback.has_value()) {
    pending->promise.SetError(callback.error());
    return future;
  }
  if (attributes.contains("name")) {
    if (auto name = attributes.get<std::string_view>("name"); name.has_value()) {
      pending->name = *name;
    }
  }
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
    callbacks->Start(id.launch_key, *callback, std::move(operands), std::move(pending));
  }
  return future;
}

XLA_FFI_DEFINE_HANDLER(CallHandler, Call,
                       ffi::Ffi::Bind().Ctx<ffi::RunId>().Attrs().RemainingArgs().RemainingRets());

}  // namespace

HostCallbacks::HostCallbacks(const HostTopology* topology, const LaunchRegistry* launches,
                             comm::Communicator* comm, Outbox* outbox, Duration timeout,
                             Clock* clock)
    : topology_(topology),
      launches_(launches),
      comm_(comm),
      outbox_(outbox),
      timeout_(timeout),
      clock_(clock),
      pool_("callback", kContinuationThreads),
      watchdog_(LookInterval(timeout), [this] { LookForLate(); }) {
  current.store(this, std::memory_order_release);
}

HostCallbacks::~HostCallbacks() { current.store(nullptr, std::memory_order_release); }

void* HostCallbacks::Handler() { return reinterpret_cast<void*>(&comm::AnyVersion<CallHandler>); }

void HostCallbacks::Start(int32_t launch_key, int64_t callback, std::vector<std::string> operands,
                          std::shared_ptr<Pending> pending) {
  const int device_ordinal = pending->device;
  const auto session = launches_->FindByKey(launch_key);
  if (!session.has_value() || device_ordinal < 0 || device_ordinal >= topology_->num_local()) {
    pending->promise.SetError(
        ffi::Error::Internal(absl::StrCat("a host callback came from launch ", launch_key,
                                          ", device ", device_ordinal, ", which is not running")));
    return;
  }
  pending->session = *session;
  wire::FromWorker message;
  wire::HostCallback* call = message.mutable_callback();
  call->set_session(session->value);
  call->set_callback(callback);
  call->set_device(topology_->local_devices[device_ordinal]);
  for (std::string& operand : operands) call->add_operands(std::move(operand));
  comm_->DeviceOutside(device_ordinal, +1);
  pending->since = clock_->Now();
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

void HostCallbacks::LookForLate() {
  const TimePoint now = clock_->Now();
  std::vector<std::shared_ptr<Pending>> late;
  {
    MutexLock lock(mutex_);
    absl::erase_if(pending_, [&](auto& call) {
      if (now - call.second->since < timeout_) return false;
      late.push_back(std::move(call.second));
      return true;
    });
  }
  for (auto& pending : late) {
    const std::string name =
        pending->name.empty() ? "a host callback" : absl::StrCat("host callback ", pending->name);
    absl::Status status = absl::DeadlineExceededError(
        absl::StrCat(name, ", called by device ", topology_->local_devices[pending->device],
                     ", did not return within ", std::chrono::duration<double>(timeout_).count(),
                     " s: see what it waits for, or allow it more time (--callback-timeout)"));
    LOG_WARN("{}", std::string(status.message()));
    Complete(std::move(pending), std::move(status));
  }
}

void HostCallbacks::Complete(std::shared_ptr<Pending> pending, absl::Status status) {
  comm_->DeviceOutside(pending->device, -1);
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
