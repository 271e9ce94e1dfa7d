// Tells a forked child that an object it inherited is its parent's. (Python's multiprocessing forks
// processes that hold channels; their threads are gone there, and their shared memory is the
// parent's.)
#pragma once

namespace shardway::wire {

// Made in the owning process. Costs one load to ask; no system call.
class ForkGuard {
 public:
  ForkGuard();
  // False in a forked child, and in its children.
  bool InOwner() const;

 private:
  unsigned generation_;
};

}  // namespace shardway::wire
