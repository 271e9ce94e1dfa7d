// Where the devices of this host meet. One for each communicator.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "shardway/comm/call.h"
#include "shardway/comm/launch.h"
#include "shardway/comm/launch_table.h"
#include "shardway/comm/work.h"
#include "shardway/comm/work_pool.h"

namespace shardway::comm {

class Exchange;

class Rendezvous {
 public:
  // `exchange` carries groups that span hosts; null when this host is alone. `spin`: whether a
  // device may wait a few microseconds in its call, because every device has a core of its own.
  Rendezvous(int num_ordinals, bool spin, WorkPool* pool);
  void set_exchange(Exchange* exchange) { exchange_ = exchange; }

  LaunchTable& launches() { return launches_; }

  // A call site of the open launch with this LaunchKeyOf; its plan is null: there is none.
  struct OpenSite {
    int32_t launch = 0;
    const SitePlan* plan = nullptr;
  };
  OpenSite FindSite(int32_t launch_key, int32_t site) const;

  // Files one device's operands. Never blocks; spins at most a few microseconds. An error fails the
  // caller only when it concerns this call alone, else the whole launch.
  absl::StatusOr<Outcome> File(const Call& call);

 private:
  // How a device's spinning went lately.
  struct alignas(64) SpinHistory {
    std::atomic<int> failures{0};  // in a row
    std::atomic<int> skip{0};      // arrivals that will not spin
  };

  void Complete(Slot& slot, Scheduler scheduler);
  absl::StatusOr<Outcome> AwaitRelease(const Call& call, Launch& launch, Slot& slot, Entry& entry);
  bool Spin(const Call& call, const Slot& slot, const Entry& entry);
  bool SpinFor(std::chrono::microseconds time, const Call& call, bool remote, const Entry& entry);

  LaunchTable launches_;
  const bool spin_;
  WorkPool& pool_;
  Exchange* exchange_ = nullptr;
  std::vector<SpinHistory> spin_history_;
};

// Points `work` at the buffers of the slot's local members; for the thread that has claimed it.
void GatherLocal(const Slot& slot, Work* work);

}  // namespace shardway::comm
