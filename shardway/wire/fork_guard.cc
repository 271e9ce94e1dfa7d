#include "shardway/wire/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace shardway::wire {
namespace {

// Counts the forks between the first process and this one.
std::atomic<unsigned> generation{0};

void CountForks() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
}

}  // namespace

ForkGuard::ForkGuard() {
  CountForks();
  generation_ = generation.load(std::memory_order_relaxed);
}

bool ForkGuard::InOwner() const {
  return generation_ == generation.load(std::memory_order_relaxed);
}

}  // namespace shardway::wire
