// One thread per process that sleeps until a peer of some channel is gone, so that the channels'
// own threads need not look: an idle process does not wake up, and an end is noticed at once.
#pragma once

#include <cstdint>
#include <functional>

namespace shardway::wire {

// Made when first needed; never destroyed. Thread-safe.
class PeerWatcher {
 public:
  // Null when there can be none (no descriptors left, no thread): then channels look by themselves.
  static PeerWatcher* Get();

  // Calls `gone` once, on the watcher's thread, when the other end of `socket` is closed or the
  // process of the pidfd `process` (-1: none) has ended. `gone` must be short and must not call
  // the watcher. The descriptors stay the caller's, open until Remove. 0: it can't be watched.
  uint64_t Add(int socket, int process, std::function<void()> gone);
  // `gone` is not running afterwards and is not called any more. In a child of the process that
  // added it: does nothing.
  void Remove(uint64_t id, int socket, int process);

 private:
  struct State;

  explicit PeerWatcher(State* state) : state_(*state) {}
  static PeerWatcher* Start();
  void Loop();

  State& state_;
};

}  // namespace shardway::wire
