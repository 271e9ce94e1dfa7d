// Sleeping on a word of shared memory.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "shardway/base/clock.h"

namespace shardway::wire {

// Sleeps while `word` is `expected`, at most `timeout`. Also returns for no reason.
inline void FutexWait(std::atomic<uint32_t>& word, uint32_t expected, Duration timeout) {
  const int64_t nanos = timeout.count() > 0 ? timeout.count() : 0;
  const timespec relative = {static_cast<time_t>(nanos / 1'000'000'000),
                             static_cast<long>(nanos % 1'000'000'000)};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &relative, nullptr, 0);
}

inline void FutexWakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace shardway::wire
