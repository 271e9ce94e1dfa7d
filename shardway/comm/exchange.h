// Collectives whose groups span hosts of one machine. Each host sends its members' operands to the
// others of the group once its last local member has arrived; who holds everybody's operands
// combines or copies them for its own members. All operands in device order: the same bits
// everywhere.
//
//   small: operands → everybody combines all                        one round
//   large all-reduce: operands → each host combines a share → shares   two rounds
//
// Waking. A sleeping host is woken once per collective, by the host that comes last: each host puts
// its messages into all mailboxes first and looks into its own afterwards, so the last one to
// finish putting sees everybody's, and rings. (More than one may: the second ring finds nobody
// asleep.) A message that a full mailbox kept back is put later: who puts it looks, and rings,
// then.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "shardway/base/clock.h"
#include "shardway/comm/call.h"
#include "shardway/comm/launch.h"
#include "shardway/comm/remote_slot.h"
#include "shardway/comm/transfers.h"
#include "shardway/comm/transport.h"
#include "shardway/comm/work.h"
#include "shardway/comm/work_pool.h"

namespace shardway::comm {

class Exchange {
 public:
  struct Launches {
    std::function<std::shared_ptr<Launch>(int32_t)> find;  // null: not open on this host
    // Something is wrong with a launch: fail it here and elsewhere.
    std::function<void(int32_t, const absl::Status&)> abort;
  };
  // `linger`: there are more devices than cores, so that devices don't spin; the poller looks a
  // little longer before it sleeps, giving way to everybody else.
  Exchange(std::unique_ptr<Transport> transport, WorkPool* pool, Launches launches, bool linger);
  ~Exchange();

  // All local members of `slot` have arrived; the caller has claimed it and leaves it to the
  // exchange.
  void Arrived(Launch& launch, Slot& slot, Scheduler scheduler);
  // Takes what has come from other hosts and carries on with it. False: nothing had.
  bool Poll(Scheduler scheduler);

  // For a device that spins on a collective between hosts: between the two it calls Poll all the
  // time, and the others save their rings.
  void StartPolling() { transport_->StartPolling(); }
  void StopPolling(Scheduler scheduler);

  // `launch` is open on this host from now on: what came early is handed to it.
  void Began(Launch& launch);
  // `launch` has ended without being as new: what is left in it goes back to its senders.
  void Drop(Launch& launch);
  // Tells `hosts` (all, if empty) that a launch failed.
  void SendAbort(int32_t launch, const absl::Status& cause, absl::Span<const int> hosts);
  void HostLost(int host);
  // Forgets what came for launches and transfers that never began here, older than `age`; and gives
  // memory that is no longer used back to the system.
  void Tidy(TimePoint now, Duration age);

  Transfers& transfers() { return transfers_; }

 private:
  // What Receive found to do, done when its lock is free again.
  struct Ready {
    std::shared_ptr<Launch> launch;
    Slot* slot = nullptr;
    uint32_t step = 0;
    int round = 0;
    absl::Status failure;  // of the launch; `tell`: the other hosts don't know yet
    bool tell = false;
    bool ring = false;  // the other hosts may be asleep
  };
  using ReadyList = absl::InlinedVector<Ready, 4>;
  struct Early {
    int from;
    MessageHead head;
    std::string inline_payload;
    TimePoint since{};
  };
  // A claimed slot that waits for room in the arena.
  struct Deferred {
    std::shared_ptr<Launch> launch;
    Slot* slot;
    int round;
  };

  void Receive(ReadyList* ready);
  void OnMessage(int from, const MessageHead& head, const char* payload, ReadyList* ready);
  void OnLaunchMessage(std::shared_ptr<Launch> launch, int from, const MessageHead& head,
                       const char* payload, ReadyList* ready);
  absl::Status Accept(Launch& launch, int from, const MessageHead& head, const char* payload,
                      Slot** complete);
  void Run(ReadyList& ready, Scheduler scheduler);
  void Advance(const Ready& ready, Scheduler scheduler);

  bool Publish(Launch& launch, Slot& slot);
  void AwaitOthers(Launch& launch, Slot& slot, Scheduler scheduler);
  void Finish(Slot& slot, Work work, Scheduler scheduler);
  bool Combine(std::shared_ptr<Launch> launch, Slot& slot);
  void SendShare(std::shared_ptr<Launch> launch, Slot& slot, uint64_t block, int64_t bytes);
  void Spread(Slot& slot);
  void Park(Launch& launch, Slot& slot);
  void Fail(Launch& launch, Slot& slot, const absl::Status& status);
  void Acknowledge(Slot& slot, RemoteSlot::Set& set);
  void Defer(std::shared_ptr<Launch> launch, Slot& slot, int round);
  void RetryDeferred();
  bool HasDeferred();
  void GatherRemote(Slot& slot, Work* work);
  int Participant(const GroupPlan& group) const;
  void Loop();
  void Linger();

  const std::unique_ptr<Transport> transport_;
  WorkPool& pool_;
  const Launches launches_;
  Transfers transfers_;
  Mutex early_mutex_;
  absl::flat_hash_map<int32_t, std::vector<Early>> early_ SHARDWAY_GUARDED_BY(early_mutex_);
  std::deque<int32_t> dropped_ SHARDWAY_GUARDED_BY(early_mutex_);  // launches that ended badly here
  Mutex deferred_mutex_;
  std::vector<Deferred> deferred_ SHARDWAY_GUARDED_BY(deferred_mutex_);
  const bool linger_;
  std::atomic<bool> stopping_{false};
  std::thread poller_;
};

}  // namespace shardway::comm
