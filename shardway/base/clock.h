// Time as a dependency, so that tests about time use a fake one.
#pragma once

#include <atomic>
#include <chrono>

namespace shardway {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::steady_clock::time_point;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;

  // The machine's steady clock. Never deleted.
  static Clock* Real();
};

// A clock that stands still until it is advanced. Thread-safe.
class FakeClock : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(Duration(nanos_.load())); }
  void Advance(Duration by) { nanos_.fetch_add(by.count()); }

 private:
  std::atomic<int64_t> nanos_{1'000'000'000};
};

}  // namespace shardway
