#include "shardway/comm/communicator.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/cores.h"
#include "shardway/base/status_macros.h"
#include "shardway/comm/communicator_impl.h"
#include "shardway/comm/link_probe.h"
#include "shardway/comm/run_id.h"

namespace shardway::comm {
namespace {

std::atomic<CommunicatorImpl*> current{nullptr};
constexpr size_t kMaxEarlyAborts = 4096;

// How often the watchdog looks: often enough that a deadline is met within a quarter.
Duration LookInterval(Duration timeout) {
  return std::clamp<Duration>(timeout / 4, std::chrono::milliseconds(5), std::chrono::seconds(1));
}

}  // namespace

CommunicatorImpl* CurrentCommunicator() { return current.load(std::memory_order_acquire); }

absl::StatusOr<std::unique_ptr<CommunicatorImpl>> CommunicatorImpl::Create(Options options) {
  if (options.clock == nullptr) options.clock = Clock::Real();
  HostMap hosts;
  hosts.host = options.host;
  hosts.host_of_device = options.host_of_device;
  hosts.ordinal_of_device.assign(options.host_of_device.size(), -1);
  hosts.num_ordinals = static_cast<int>(options.local_devices.size());
  if (hosts.num_ordinals > kMaxOrdinals) {
    return absl::InvalidArgumentError(absl::StrCat("host ", options.host, " has ",
                                                   hosts.num_ordinals, " devices; ", kMaxOrdinals,
                                                   " at most can be told apart: use more hosts"));
  }
  for (int ordinal = 0; ordinal < hosts.num_ordinals; ++ordinal) {
    const int global = options.local_devices[ordinal];
    if (global < 0 || global >= static_cast<int>(hosts.host_of_device.size()) ||
        hosts.host_of_device[global] != options.host || hosts.ordinal_of_device[global] != -1) {
      return absl::InvalidArgumentError(absl::StrCat("device ", global, " (ordinal ", ordinal,
                                                     ") is not a device of host ", options.host));
    }
    hosts.ordinal_of_device[global] = ordinal;
  }
  // All hosts are taken to be on this machine: with devices on others this errs on the side of not
  // spinning.
  const bool spin = options.spin && static_cast<int>(hosts.host_of_device.size()) <= Cores();
  std::unique_ptr<SharedSegment> segment;
  if (options.shared_memory_fd >= 0) {
    int num_hosts = options.host + 1;
    for (int host : hosts.host_of_device) num_hosts = std::max(num_hosts, host + 1);
    if (hosts.host_of_device.size() > kMaxSegmentDevices) {
      return absl::InvalidArgumentError(absl::StrCat(hosts.host_of_device.size(),
                                                     " devices; hosts of one machine have ",
                                                     kMaxSegmentDevices, " at most"));
    }
    SHARDWAY_ASSIGN_OR_RETURN(segment, SharedSegment::Map(options.shared_memory_fd,
                                                          options.shared_memory_bytes, num_hosts));
  }
  std::unique_ptr<CommunicatorImpl> communicator(
      new CommunicatorImpl(std::move(options), std::move(hosts), spin, std::move(segment)));
  current.store(communicator.get(), std::memory_order_release);
  return communicator;
}

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Create(Options options) {
  return CommunicatorImpl::Create(std::move(options));
}

uint64_t Communicator::SharedMemoryBytes(int hosts) { return SharedSegment::Bytes(hosts); }

CommunicatorImpl::CommunicatorImpl(Options options, HostMap hosts, bool spin,
                                   std::unique_ptr<SharedSegment> segment)
    : options_(std::move(options)),
      hosts_(std::move(hosts)),
      board_(segment == nullptr ? nullptr : segment->devices(),
             static_cast<int>(hosts_.host_of_device.size())),
      pool_(Cores()),
      rendezvous_(hosts_.num_ordinals, spin, &pool_) {
  if (segment != nullptr) {
    exchange_ = std::make_unique<Exchange>(
        std::make_unique<Transport>(std::move(segment), options_.host), &pool_,
        Exchange::Launches{
            .find = [this](LaunchId id) { return FindLaunch(id); },
            .abort = [this](LaunchId id, const absl::Status& cause) { AbortLaunch(id, cause); }},
        /*linger=*/!spin);
    rendezvous_.set_exchange(exchange_.get());
  }
  watchdog_ = std::make_unique<Watchdog>(LookInterval(options_.timeout), [this] {
    LookForStuck();
    if (exchange_ != nullptr) exchange_->Tidy(options_.clock->Now(), 2 * options_.start_timeout);
  });
}

CommunicatorImpl::~CommunicatorImpl() {
  CommunicatorImpl* self = this;
  current.compare_exchange_strong(self, nullptr);
  watchdog_.reset();
  exchange_.reset();
}

absl::StatusOr<std::shared_ptr<const ProgramComm>> CommunicatorImpl::Prepare(
    std::vector<collective::Spec> specs, std::vector<int> devices) {
  SHARDWAY_ASSIGN_OR_RETURN(auto program,
                            ProgramComm::Create(std::move(specs), std::move(devices), hosts_));
  if (exchange_ == nullptr && program->spans_hosts()) {
    return absl::FailedPreconditionError(
        absl::StrCat("a program has collectives between host ", options_.host,
                     " and others, but was given no shared memory to reach them"));
  }
  return program;
}

void CommunicatorImpl::BeginLaunch(LaunchId id, std::shared_ptr<const ProgramComm> program) {
  const absl::Span<const int> hosts = program->hosts();
  std::shared_ptr<Launch> launch = program->TakeLaunch();
  launch->Open(id, std::move(program));
  auto open = std::make_shared<Open>();
  open->launch = launch;
  absl::Status lost;
  {
    MutexLock lock(mutex_);
    open_[id] = std::move(open);
    if (!lost_hosts_.empty()) {
      for (int host : hosts) {
        if (auto it = lost_hosts_.find(host); it != lost_hosts_.end()) lost.Update(it->second);
      }
    }
    if (auto it = early_aborts_.find(id); it != early_aborts_.end()) {
      lost.Update(it->second);
      early_aborts_.erase(it);
    }
  }
  rendezvous_.launches().Insert(id, launch.get());
  if (!lost.ok()) launch->Abort(lost);
  if (exchange_ != nullptr) exchange_->Began(*launch);
}

void CommunicatorImpl::EndLaunch(LaunchId id) {
  rendezvous_.launches().Remove(id);
  std::shared_ptr<Launch> launch;
  {
    MutexLock lock(mutex_);
    auto it = open_.find(id);
    if (it == open_.end()) return;
    launch = std::move(it->second->launch);
    open_.erase(it);
  }
  std::shared_ptr<const ProgramComm> program = launch->shared_program();
  // Somebody else may still hold it (an abort, the watchdog): then it is not used again.
  if (launch.use_count() == 1 && launch->Close()) {
    program->GiveBack(std::move(launch));
  } else if (exchange_ != nullptr && program->spans_hosts()) {
    exchange_->Drop(*launch);
  }
}

std::shared_ptr<Launch> CommunicatorImpl::FindLaunch(LaunchId id) {
  MutexLock lock(mutex_);
  auto it = open_.find(id);
  return it == open_.end() ? nullptr : it->second->launch;
}

void CommunicatorImpl::AbortLaunch(LaunchId id, const absl::Status& cause) {
  std::shared_ptr<Launch> launch;
  {
    MutexLock lock(mutex_);
    if (auto it = open_.find(id); it != open_.end()) {
      launch = it->second->launch;
    } else {
      early_aborts_[id] = cause;
    }
  }
  if (exchange_ != nullptr) {
    exchange_->SendAbort(id, cause,
                         launch == nullptr ? absl::Span<const int>() : launch->program().hosts());
  }
  if (launch != nullptr) launch->Abort(cause);
}

absl::Status CommunicatorImpl::Send(uint64_t key, int to_host, absl::Span<const char> bytes) {
  if (exchange_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("no shared memory to reach host ", to_host));
  }
  return exchange_->transfers().Send(key, to_host, bytes, options_.timeout);
}

absl::Status CommunicatorImpl::Receive(uint64_t key, int from_host, absl::Span<char> bytes) {
  if (exchange_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("no shared memory to reach host ", from_host));
  }
  return exchange_->transfers().Receive(key, from_host, bytes, options_.timeout);
}

void CommunicatorImpl::OnTransfer(uint64_t key, int from_host, std::function<void()> begun) {
  if (exchange_ == nullptr) return begun();  // Receive has an error for it
  exchange_->transfers().OnBegun(key, from_host, std::move(begun));
}

absl::StatusOr<topology::Link> CommunicatorImpl::MeasureLink(LaunchId launch, int device, int other,
                                                             Duration timeout) {
  LinkProbe probe;
  probe.launch = launch;
  probe.devices[0] = device;
  probe.devices[1] = other;
  return comm::MeasureLink(*this, probe, timeout);
}

void CommunicatorImpl::HostLost(int host, const absl::Status& cause) {
  const absl::Status lost =
      absl::UnavailableError(absl::StrCat("host ", host, " is lost: ", cause.message()));
  std::vector<std::shared_ptr<Launch>> concerned;
  {
    MutexLock lock(mutex_);
    lost_hosts_[host] = lost;
    for (auto& [id, open] : open_) {
      const absl::Span<const int> hosts = open->launch->program().hosts();
      if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) {
        concerned.push_back(open->launch);
      }
    }
  }
  if (exchange_ != nullptr) exchange_->HostLost(host);
  for (const std::shared_ptr<Launch>& launch : concerned) launch->Abort(lost);
}

void CommunicatorImpl::LookForStuck() {
  std::vector<std::pair<std::shared_ptr<Open>, std::shared_ptr<Launch>>> open;
  {
    MutexLock lock(mutex_);
    for (auto& [id, one] : open_) open.emplace_back(one, one->launch);
  }
  const TimePoint now = options_.clock->Now();
  for (auto& [one, launch] : open) {
    if (launch->aborted()) continue;
    const absl::Status status =
        one->finder.Look(*launch, board_, now, {options_.timeout, options_.start_timeout});
    if (!status.ok()) AbortLaunch(launch->id(), status);
  }
  MutexLock lock(mutex_);
  // Launches that were given up before they began, and never did.
  if (early_aborts_.size() > kMaxEarlyAborts) early_aborts_.clear();
}

}  // namespace shardway::comm
