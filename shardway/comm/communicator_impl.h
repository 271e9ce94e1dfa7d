// The communicator of this process: launches, their deadlines and failures. Where devices of this
// host meet is rendezvous.h; what goes to other hosts is exchange.h.
#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "shardway/comm/communicator.h"
#include "shardway/comm/device_board.h"
#include "shardway/comm/exchange.h"
#include "shardway/comm/program_comm.h"
#include "shardway/comm/rendezvous.h"
#include "shardway/comm/stuck.h"
#include "shardway/comm/watchdog.h"

namespace shardway::comm {

class CommunicatorImpl : public Communicator {
 public:
  static absl::StatusOr<std::unique_ptr<CommunicatorImpl>> Create(Options options);
  ~CommunicatorImpl() override;

  absl::StatusOr<std::shared_ptr<const ProgramComm>> Prepare(std::vector<collective::Spec> specs,
                                                             std::vector<int> devices) override;
  void BeginLaunch(LaunchId launch, std::shared_ptr<const ProgramComm> program) override;
  void EndLaunch(LaunchId launch) override;
  void DeviceStarts(LaunchId launch, int ordinal) override {
    board_.Start(options_.local_devices[ordinal], launch);
  }
  void DeviceOutside(int ordinal, int change) override {
    board_.ChangeOutside(options_.local_devices[ordinal], change);
  }
  void AbortLaunch(LaunchId launch, const absl::Status& cause) override;
  absl::Status Send(uint64_t key, int to_host, absl::Span<const char> bytes) override;
  absl::Status Receive(uint64_t key, int from_host, absl::Span<char> bytes) override;
  void OnTransfer(uint64_t key, int from_host, std::function<void()> begun) override;
  absl::StatusOr<topology::Link> MeasureLink(LaunchId launch, int device, int other,
                                             Duration timeout) override;
  void HostLost(int host, const absl::Status& cause) override;

  // What the FFI handler calls, and tests in its place.
  absl::StatusOr<Outcome> File(const Call& call) { return rendezvous_.File(call); }
  // Of a device by its global id; -1: there is none, or on another host.
  int OrdinalOf(int device) const {
    const bool known = device >= 0 && device < static_cast<int>(hosts_.ordinal_of_device.size());
    return known ? hosts_.ordinal_of_device[device] : -1;
  }
  // The specification at a site of an open launch; null: there is none.
  Rendezvous::OpenSite FindSite(int32_t launch_key, int32_t site) {
    return rendezvous_.FindSite(launch_key, site);
  }

 private:
  CommunicatorImpl(Options options, HostMap hosts, bool spin,
                   std::unique_ptr<SharedSegment> segment);
  void LookForStuck();
  std::shared_ptr<Launch> FindLaunch(LaunchId id);

  struct Open {
    std::shared_ptr<Launch> launch;
    StuckFinder finder;  // used by the watchdog alone
  };

  const Options options_;
  const HostMap hosts_;
  DeviceBoard board_;
  WorkPool pool_;
  Rendezvous rendezvous_;
  Mutex mutex_;
  absl::flat_hash_map<LaunchId, std::shared_ptr<Open>> open_ SHARDWAY_GUARDED_BY(mutex_);
  // Launches that failed before they began here.
  absl::flat_hash_map<LaunchId, absl::Status> early_aborts_ SHARDWAY_GUARDED_BY(mutex_);
  absl::flat_hash_map<int, absl::Status> lost_hosts_ SHARDWAY_GUARDED_BY(mutex_);
  std::unique_ptr<Exchange> exchange_;  // null: this host is alone
  std::unique_ptr<Watchdog> watchdog_;
};

// The process's communicator, for the handler; null before the first Create and after its end.
CommunicatorImpl* CurrentCommunicator();

}  // namespace shardway::comm
