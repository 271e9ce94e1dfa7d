// Which of a session's operations have ended, and how; which arrays each of them makes; and who
// waits.
//
// An operation lives from Begin until it has ended and all its arrays are freed. Arrays have
// consecutive ids (the client hands them out), so they are found by table, not by hashing each one:
// a run with a hundred results costs a hundred pointer stores.
//
// Thread-safe. Callbacks run on the thread that learns the outcome, with no lock held, exactly
// once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "shardway/base/ids.h"
#include "shardway/base/mutex.h"
#include "shardway/client/session.h"
#include "shardway/wire/session.pb.h"

namespace shardway::client {

class DoneTracker {
 public:
  using Callback = Session::DoneCallback;
  static constexpr size_t kMaxOutstanding = 8192;

  DoneTracker() = default;
  ~DoneTracker();  // drops what still waits without calling it: FailAll first

  // Operation `seq` makes the arrays first .. first + count - 1. `*done`, unless it is null, is
  // taken and called when it ends. After FailAll the operation has failed already: FailAll's status
  // is returned, and `*done` is left to the caller, who may hold locks now.
  absl::Status Begin(uint64_t seq, ArrayId first, int count, Callback* done);

  // Waits while kMaxOutstanding operations are outstanding: what runs ahead without end would fill
  // the memory of client and controller with what waits. Ends when some have ended, or the session.
  void AwaitRoom();

  // Takes the controller's word. Numbers that are not outstanding are ignored.
  void Finish(const wire::Done& done);

  // The session is over: everything outstanding fails with `status`, and whatever begins later.
  // Only the first call counts.
  void FailAll(const absl::Status& status);

  // Calls back with the array's outcome; at once when it is known. INVALID_ARGUMENT for an id that
  // was never made or is freed.
  void OnReady(ArrayId array, Callback callback);
  // Whether OnReady would call back at once.
  bool IsReady(ArrayId array);

  // Calls back once everything that is outstanding now has ended; at once if nothing is.
  void OnAllEnded(absl::AnyInvocable<void() &&> callback);

  // Forgets the array; who waits for it is still called. False for an id that was never made or is
  // freed.
  bool Free(ArrayId array);

 private:
  struct Operation {
    int references = 0;  // arrays not freed yet, and one while it is outstanding
    bool ended = false;
    absl::Status status;
    std::vector<Callback> waiting;
  };
  static constexpr int kChunk = 256;
  struct Chunk {
    std::array<Operation*, kChunk> makers = {};
    int live = 0;
  };
  struct Call {
    Callback callback;
    absl::Status status;
  };

  Operation** FindSlot(ArrayId array) SHARDWAY_REQUIRES(mutex_);
  void End(Operation* operation, const absl::Status& status, std::vector<Call>* calls)
      SHARDWAY_REQUIRES(mutex_);
  void Unreference(Operation* operation) SHARDWAY_REQUIRES(mutex_);
  static void MakeCalls(std::vector<Call> calls);

  void WakeWaiting() SHARDWAY_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar room_;
  int awaiting_room_ SHARDWAY_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, Operation*> outstanding_ SHARDWAY_GUARDED_BY(mutex_);  // by seq
  absl::flat_hash_map<uint64_t, std::unique_ptr<Chunk>> arrays_ SHARDWAY_GUARDED_BY(mutex_);
  absl::Status over_ SHARDWAY_GUARDED_BY(mutex_);  // not OK after FailAll
};

}  // namespace shardway::client
