#include "shardway/comm/communicator.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/comm/communicator_impl.h"

namespace shardway::comm {
namespace {

std::atomic<CommunicatorImpl*> current{nullptr};

// How often the watchdog looks: often enough that a deadline is met within a quarter.
Duration LookInterval(Duration timeout) {
  return std::clamp<Duration>(timeout / 4, std::chrono::milliseconds(5), std::chrono::seconds(1));
}

int Cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace

CommunicatorImpl* CurrentCommunicator() { return current.load(std::memory_order_acquire); }

absl::StatusOr<std::unique_ptr<CommunicatorImpl>> CommunicatorImpl::Create(Options options) {
  if (options.clock == nullptr) options.clock = Clock::Real();
  HostMap hosts;
  hosts.host = options.host;
  hosts.host_of_device = options.host_of_device;
  hosts.ordinal_of_device.assign(options.host_of_device.size(), -1);
  hosts.num_ordinals = static_cast<int>(options.local_devices.size());
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
  const bool spin = static_cast<int>(hosts.host_of_device.size()) <= Cores();
  std::unique_ptr<CommunicatorImpl> communicator(
      new CommunicatorImpl(std::move(options), std::move(hosts), spin));
  current.store(communicator.get(), std::memory_order_release);
  return communicator;
}

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Create(Options options) {
  return CommunicatorImpl::Create(std::move(options));
}

CommunicatorImpl::CommunicatorImpl(Options options, HostMap hosts, bool spin)
    : options_(std::move(options)),
      hosts_(std::move(hosts)),
      pool_(Cores()),
      rendezvous_(hosts_.num_ordinals, spin, &pool_),
      watchdog_(
          std::make_unique<Watchdog>(LookInterval(options_.timeout), [this] { LookForStuck(); })) {}

CommunicatorImpl::~CommunicatorImpl() {
  CommunicatorImpl* self = this;
  current.compare_exchange_strong(self, nullptr);
  watchdog_.reset();
}

absl::StatusOr<std::shared_ptr<const ProgramComm>> CommunicatorImpl::Prepare(
    std::vector<collective::Spec> specs, std::vector<int> devices) {
  return ProgramComm::Create(std::move(specs), std::move(devices), hosts_);
}

void CommunicatorImpl::BeginLaunch(LaunchId id, std::shared_ptr<const ProgramComm> program) {
  std::shared_ptr<Launch> launch = program->TakeLaunch();
  launch->Open(id, std::move(program));
  auto open = std::make_shared<Open>();
  open->launch = launch;
  {
    MutexLock lock(mutex_);
    open_[id] = std::move(open);
  }
  rendezvous_.launches().Insert(id, launch.get());
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
  // An abort or the watchdog may still hold it: then it is not used again.
  if (launch.use_count() == 1 && launch->Close()) program->GiveBack(std::move(launch));
}

std::shared_ptr<Launch> CommunicatorImpl::FindLaunch(LaunchId id) {
  MutexLock lock(mutex_);
  auto it = open_.find(id);
  return it == open_.end() ? nullptr : it->second->launch;
}

void CommunicatorImpl::AbortLaunch(LaunchId id, const absl::Status& cause) {
  if (std::shared_ptr<Launch> launch = FindLaunch(id)) launch->Abort(cause);
}

absl::Status CommunicatorImpl::Send(uint64_t, int to_host, absl::Span<const char>) {
  return absl::UnavailableError(absl::StrCat("no way to host ", to_host));
}
absl::Status CommunicatorImpl::Receive(uint64_t, int from_host, absl::Span<char>) {
  return absl::UnavailableError(absl::StrCat("no way from host ", from_host));
}
void CommunicatorImpl::HostLost(int, const absl::Status&) {}

void CommunicatorImpl::LookForStuck() {
  std::vector<std::pair<std::shared_ptr<Open>, std::shared_ptr<Launch>>> open;
  {
    MutexLock lock(mutex_);
    for (auto& [id, one] : open_) open.emplace_back(one, one->launch);
  }
  const TimePoint now = options_.clock->Now();
  for (auto& [one, launch] : open) {
    if (launch->aborted()) continue;
    const absl::Status status = one->finder.Look(*launch, now, options_.timeout);
    if (!status.ok()) AbortLaunch(launch->id(), status);
  }
}

}  // namespace shardway::comm
