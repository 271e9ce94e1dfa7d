// Copies of arrays between hosts of one machine: large ones go in parts, a few at a time.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shardway/base/clock.h"
#include "shardway/base/mutex.h"
#include "shardway/comm/transport.h"

namespace shardway::comm {

// Thread-safe.
class Transfers {
 public:
  explicit Transfers(Transport* transport) : transport_(*transport) {}

  // Blocking, `timeout` at most without any progress.
  absl::Status Send(uint64_t key, int to, absl::Span<const char> bytes, Duration timeout);
  absl::Status Receive(uint64_t key, int from, absl::Span<char> bytes, Duration timeout);
  // Calls `begun` once Receive has something to do: a part has come, or none will (the host is
  // lost, or has not begun within the age given to Tidy). At once if that is so now. On any thread.
  void OnBegun(uint64_t key, int from, std::function<void()> begun);

  // A part has come; from the transport's receiver.
  void Arrived(int from, const MessageHead& head, const char* payload);
  // The doorbell rang: who waits looks again.
  void Wake() { changed_.NotifyAll(); }
  void HostLost(int host);
  // Gives back parts that nobody asked for within `age`; calls who has waited for longer.
  void Tidy(TimePoint now, Duration age);

 private:
  struct Part {
    MessageHead head;
    std::string inline_payload;
    TimePoint since{};
  };
  absl::Status SendPart(uint64_t key, int to, uint32_t index, absl::Span<const char> part,
                        uint64_t total, Duration timeout, std::deque<uint64_t>* in_flight);

  using Key = std::pair<int, uint64_t>;
  struct Waiting {
    std::function<void()> begun;
    TimePoint since{};
  };

  Transport& transport_;
  Mutex mutex_;
  CondVar changed_;
  std::map<Key, std::deque<Part>> parts_ SHARDWAY_GUARDED_BY(mutex_);
  std::map<Key, Waiting> waiting_ SHARDWAY_GUARDED_BY(mutex_);  // for their first part
  std::set<int> lost_ SHARDWAY_GUARDED_BY(mutex_);
};

}  // namespace shardway::comm
