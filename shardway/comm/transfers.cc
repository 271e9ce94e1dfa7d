#include "shardway/comm/transfers.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"

namespace shardway::comm {
namespace {

constexpr size_t kPartBytes = size_t{8} << 20;
constexpr size_t kPartsInFlight = 4;
// Waiting threads are woken by the poller; this covers a ring that was lost with its sender.
constexpr Duration kLookAgain = std::chrono::milliseconds(20);
constexpr Duration kReceiverLooksAgain = std::chrono::seconds(1);

absl::Status Lost(int host) {
  return absl::UnavailableError(absl::StrCat("host ", host, " is lost"));
}

}  // namespace

absl::Status Transfers::Send(uint64_t key, int to, absl::Span<const char> bytes, Duration timeout) {
  if (to < 0 || to >= transport_.hosts()) {
    return absl::InvalidArgumentError(absl::StrCat("no host ", to, " to send to"));
  }
  std::deque<uint64_t> in_flight;
  size_t sent = 0;
  uint32_t index = 0;
  do {
    const absl::Span<const char> part = bytes.subspan(sent, kPartBytes);
    SHARDWAY_RETURN_IF_ERROR(SendPart(key, to, index++, part, bytes.size(), timeout, &in_flight));
    sent += part.size();
  } while (sent < bytes.size());
  return absl::OkStatus();
}

absl::Status Transfers::SendPart(uint64_t key, int to, uint32_t index, absl::Span<const char> part,
                                 uint64_t total, Duration timeout,
                                 std::deque<uint64_t>* in_flight) {
  MessageHead head;
  head.kind = MessageKind::kTransfer;
  head.group = static_cast<int64_t>(key);
  head.step = index;
  head.bytes = part.size();
  head.total = total;
  if (part.size() <= static_cast<size_t>(kMessagePayload)) {
    transport_.Send(to, head, part);
    transport_.Ring(to);
    return absl::OkStatus();
  }
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  {
    MutexLock lock(mutex_);
    for (;;) {
      if (lost_.contains(to)) return Lost(to);
      transport_.RingWhenRead();
      while (!in_flight->empty() && transport_.arena().IsRead(in_flight->front())) {
        in_flight->pop_front();
      }
      if (in_flight->size() < kPartsInFlight) {
        head.block = transport_.arena().Allocate(part.size(), {to});
        if (head.block != Arena::kNoSpace) break;
      }
      if (std::chrono::steady_clock::now() >= deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat("sending transfer ", key, " (", total, " bytes) to host ", to,
                         ": it has not read part ", index - in_flight->size(), " for ",
                         std::chrono::duration<double>(timeout).count(), " s"));
      }
      changed_.WaitFor(mutex_, kLookAgain);
    }
  }
  std::memcpy(transport_.Payload(head.block), part.data(), part.size());
  transport_.arena().Seal(head.block);
  in_flight->push_back(head.block);
  transport_.Send(to, head, {});
  transport_.Ring(to);
  return absl::OkStatus();
}

absl::Status Transfers::Receive(uint64_t key, int from, absl::Span<char> bytes, Duration timeout) {
  size_t received = 0;
  bool first = true;
  while (first || received < bytes.size()) {
    first = false;
    Part part;
    {
      const auto deadline = std::chrono::steady_clock::now() + timeout;
      MutexLock lock(mutex_);
      auto it = parts_.find({from, key});
      for (; it == parts_.end(); it = parts_.find({from, key})) {
        if (lost_.contains(from)) return Lost(from);
        if (std::chrono::steady_clock::now() >= deadline) {
          return absl::DeadlineExceededError(
              absl::StrCat("receiving transfer ", key, " from host ", from, ": ", received, " of ",
                           bytes.size(), " bytes came, then nothing for ",
                           std::chrono::duration<double>(timeout).count(), " s"));
        }
        changed_.WaitFor(mutex_, std::min(timeout, kReceiverLooksAgain));
      }
      part = std::move(it->second.front());
      it->second.pop_front();
      if (it->second.empty()) parts_.erase(it);
    }
    const bool fits = part.head.total == bytes.size() && part.head.bytes <= bytes.size() - received;
    if (fits && part.head.bytes > 0) {
      std::memcpy(bytes.data() + received,
                  part.head.block == 0 ? part.inline_payload.data()
                                       : transport_.PayloadOf(from, part.head.block),
                  part.head.bytes);
    }
    if (part.head.block != 0) transport_.Acknowledge(from, part.head.block);
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat("transfer ", key, " from host ", from, " has ",
                                                     part.head.total, " bytes, not ",
                                                     bytes.size()));
    }
    received += part.head.bytes;
    if (part.head.bytes == 0) break;
  }
  return absl::OkStatus();
}

void Transfers::OnBegun(uint64_t key, int from, std::function<void()> begun) {
  {
    MutexLock lock(mutex_);
    if (!parts_.contains({from, key}) && !lost_.contains(from)) {
      waiting_[{from, key}] = {std::move(begun)};
      return;
    }
  }
  begun();
}

void Transfers::Arrived(int from, const MessageHead& head, const char* payload) {
  std::function<void()> begun;
  {
    MutexLock lock(mutex_);
    const Key key = {from, static_cast<uint64_t>(head.group)};
    Part& part = parts_[key].emplace_back();
    part.head = head;
    if (head.block == 0) part.inline_payload.assign(payload, head.bytes);
    if (auto waiting = waiting_.extract(key); !waiting.empty()) {
      begun = std::move(waiting.mapped().begun);
    }
  }
  changed_.NotifyAll();
  if (begun) begun();
}

void Transfers::HostLost(int host) {
  std::vector<std::function<void()>> begun;
  {
    MutexLock lock(mutex_);
    lost_.insert(host);
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const auto here = it++;
      if (here->first.first != host) continue;
      begun.push_back(std::move(here->second.begun));
      waiting_.erase(here);
    }
  }
  changed_.NotifyAll();
  for (const auto& call : begun) call();
}

void Transfers::Tidy(TimePoint now, Duration age) {
  std::vector<std::function<void()>> begun;
  {
    MutexLock lock(mutex_);
    const auto is_old = [&](TimePoint& since) {
      if (since == TimePoint{}) since = now;
      return now - since >= age;
    };
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const auto here = it++;
      if (!is_old(here->second.since)) continue;
      begun.push_back(std::move(here->second.begun));
      waiting_.erase(here);
    }
    for (auto it = parts_.begin(); it != parts_.end();) {
      const auto here = it++;
      if (!is_old(here->second.front().since)) continue;
      for (const Part& part : here->second) {
        if (part.head.block != 0) transport_.Acknowledge(here->first.first, part.head.block);
      }
      parts_.erase(here);
    }
  }
  for (const auto& call : begun) call();
}

}  // namespace shardway::comm
