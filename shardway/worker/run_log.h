// The host's runs in the order the controller sent them: one append-only log for all devices.
//
//   control thread:  Append(run) ──▶ node ▶ node ▶ node (tail)
//   device d:        Cursor::Next() walks the same nodes; a device that takes no part skips a node
//
// Appending costs one store and, only if devices sleep, one futex call that wakes those which take
// part (by bit set). A node lives until every cursor has passed it; idle devices are woken now and
// then to move on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "shardway/worker/run.h"

namespace shardway::worker {

class RunLog {
 public:
  // For `num_cursors` cursors, all made before the first Append.
  explicit RunLog(int num_cursors);
  // All cursors are gone. Frees what is left.
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  // One thread at a time.
  void Append(std::unique_ptr<Run> run);

  // Cursors give null once they have passed the last run, instead of waiting. Any thread.
  void Close();

  class Cursor {
   public:
    Cursor(RunLog* log, int device);
    ~Cursor();  // gives up its place: passes all nodes that remain
    Cursor(const Cursor&) = delete;
    Cursor& operator=(const Cursor&) = delete;

    // The next run of the log, waiting for it. Valid until the next call. Null: the log is closed.
    Run* Next();

   private:
    RunLog* const log_;
    const uint32_t bit_;
    Run* current_;
  };

 private:
  static constexpr uint32_t kEveryone = ~uint32_t{0};
  // Sleeping devices that take no part are woken after so many runs, to let go of them.
  static constexpr uint32_t kWakeAllEvery = 256;

  void Drop(Run* run);
  void Wake(uint32_t bits);

  const int num_cursors_;
  uint32_t appended_ = 0;
  Run* tail_;
  std::atomic<bool> closed_{false};
  // The eventcount: `epoch_` changes before a wake, so a cursor that looked before falls through.
  alignas(64) std::atomic<uint32_t> epoch_{0};
  std::atomic<int> sleeping_{0};
  Run* first_;  // the node before the first run
};

// A device's bit in the wake-up set: devices beyond 32 share bits.
inline uint32_t WakeBit(int device) { return uint32_t{1} << (device % 32); }

}  // namespace shardway::worker
