// The state of one launch's rendezvous on this host: a Slot for each (call site, group), an Entry
// in it for each local member. All of it is allocated once and reused by later launches of the
// program.
//
// The loop step is not a key but a counter: nobody gets past step k of a (site, group) before every
// member has arrived at it, so one slot holds one step at a time.
//
// A slot's word, and who may do what:
//
//   arrived < n            members file: each writes its Entry, then adds one
//   arrived = n            the slot is *claimed* by the thread that added the last one: only it
//   reads
//                          the operands and writes the results, and it resets the slot before it
//                          lets anybody go
//   arrived = n, parked    waits for other hosts; who takes the bit away has claimed the slot
//   aborted                set only while not claimed; final. Entries that were waiting are failed
//   by
//                          the thread that set it, later arrivals fail by themselves
//
// An entry's waiter says how far its member is: kSpinning (still in its call), a runtime token
// (suspended), kDone or kFailed (released). The member sets the first two, the releaser exchanges.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shardway/base/mutex.h"
#include "shardway/comm/program_comm.h"
#include "shardway/comm/runtime.h"

namespace shardway::comm {

class RemoteSlot;

inline constexpr uintptr_t kSpinning = 0;
inline constexpr uintptr_t kDone = 1;
inline constexpr uintptr_t kFailed = 3;
inline bool IsToken(uintptr_t waiter) { return waiter != kSpinning && (waiter & 1) == 0; }

struct alignas(64) Entry {
  std::atomic<uintptr_t> waiter{kDone};
  std::atomic<uint32_t> arrivals{0};  // of this member at this site in this launch: the loop step
  Runtime* runtime = nullptr;
  void** buffers = nullptr;  // operands, then results
  void* inline_buffers[4] = {};
};

struct alignas(64) Slot {
  static constexpr uint64_t kCountMask = 0xffffff;
  static constexpr uint64_t kParked = uint64_t{1} << 24;
  static constexpr uint64_t kAborted = uint64_t{1} << 25;
  static uint64_t Count(uint64_t word) { return word & kCountMask; }
  static uint32_t Step(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
  static uint64_t WordOfStep(uint32_t step) { return static_cast<uint64_t>(step) << 32; }

  std::atomic<uint64_t> word{0};
  const SitePlan* site = nullptr;
  const GroupPlan* group = nullptr;
  Entry* entries = nullptr;            // one per local member, in group order
  std::unique_ptr<RemoteSlot> remote;  // null: all members are here

  int num_local() const { return group->num_local(); }
};

class Launch : public std::enable_shared_from_this<Launch> {
 public:
  explicit Launch(const ProgramComm& program);
  ~Launch();

  // Binds the state to a launch; keeps the program alive until Close.
  void Open(int32_t id, std::shared_ptr<const ProgramComm> program);
  // Ends it, when its devices have ended. True when every slot is as new: it may be used again.
  bool Close();

  int32_t id() const { return id_; }
  const ProgramComm& program() const { return *program_; }
  std::shared_ptr<const ProgramComm> shared_program() const { return program_; }
  absl::Span<Slot> slots() { return {slots_.get(), static_cast<size_t>(num_slots_)}; }

  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  absl::Status cause() const;
  // Fails everything that waits in the launch and everything that will arrive. The first cause
  // stays.
  void Abort(const absl::Status& cause);
  // Fails what waits in one slot; for an arrival that finds the launch aborted.
  void FailSlot(Slot& slot);

 private:
  const int num_slots_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<Entry[]> entries_;
  const int num_entries_;
  std::vector<void*> long_buffers_;
  std::shared_ptr<const ProgramComm> program_;
  int32_t id_ = 0;
  std::atomic<bool> aborted_{false};
  mutable Mutex mutex_;
  absl::Status cause_ SHARDWAY_GUARDED_BY(mutex_);
};

}  // namespace shardway::comm
