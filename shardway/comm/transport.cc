#include "shardway/comm/transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace shardway::comm {

Transport::Transport(std::unique_ptr<SharedSegment> segment, int host)
    : segment_(std::move(segment)), host_(host), arena_(segment_.get(), host) {
  for (int i = 0; i < segment_->hosts(); ++i) outgoing_.push_back(std::make_unique<Outgoing>());
}

void Transport::Send(int to, const MessageHead& head, absl::Span<const char> inline_payload) {
  Outgoing& outgoing = *outgoing_[to];
  if (outgoing.lost.load(std::memory_order_relaxed)) return;
  MutexLock lock(outgoing.mutex);
  if (outgoing.queued.empty() && Put(to, head, inline_payload)) return;
  Message& message = outgoing.queued.emplace_back();
  message.head = head;
  message.head.inline_bytes = static_cast<uint32_t>(inline_payload.size());
  std::copy(inline_payload.begin(), inline_payload.end(), message.payload);
  outgoing.has_queued.store(true, std::memory_order_release);
  segment_->Ring(to);
}

bool Transport::Put(int to, const MessageHead& head, absl::Span<const char> inline_payload) {
  Mailbox& mailbox = segment_->mailbox(to, host_);
  const uint32_t written = mailbox.written.load(std::memory_order_relaxed);
  const auto full = [&](std::memory_order order) {
    return written - mailbox.read.load(order) >= kMailboxMessages;
  };
  if (full(std::memory_order_acquire)) {
    // Ask to be rung, then look once more: the receiver may have made room in between.
    mailbox.sender_waits.store(1, std::memory_order_seq_cst);
    if (full(std::memory_order_seq_cst)) return false;
  }
  Message& slot = mailbox.messages[written % kMailboxMessages];
  slot.head = head;
  slot.head.inline_bytes = static_cast<uint32_t>(inline_payload.size());
  if (!inline_payload.empty()) {
    std::memcpy(slot.payload, inline_payload.data(), inline_payload.size());
  }
  mailbox.written.store(written + 1, std::memory_order_release);
  return true;
}

bool Transport::FlushQueued(int to) {
  Outgoing& outgoing = *outgoing_[to];
  if (!outgoing.has_queued.load(std::memory_order_acquire)) return false;
  MutexLock lock(outgoing.mutex);
  bool sent = false;
  while (!outgoing.queued.empty()) {
    const Message& message = outgoing.queued.front();
    if (!Put(to, message.head, {message.payload, message.head.inline_bytes})) break;
    outgoing.queued.pop_front();
    sent = true;
  }
  outgoing.has_queued.store(!outgoing.queued.empty(), std::memory_order_release);
  if (sent) segment_->Ring(to);
  return sent;
}

bool Transport::Receive(const Sink& sink) {
  MutexLock lock(receive_mutex_);
  bool flushed = false;
  for (int to = 0; to < hosts(); ++to) flushed |= FlushQueued(to);
  for (int from = 0; from < hosts(); ++from) {
    if (from != host_) ReceiveFrom(from, sink);
  }
  return flushed;
}

void Transport::ReceiveFrom(int from, const Sink& sink) {
  Mailbox& mailbox = segment_->mailbox(host_, from);
  uint32_t read = mailbox.read.load(std::memory_order_relaxed);
  uint32_t written = mailbox.written.load(std::memory_order_acquire);
  if (read == written) return;
  // A sender that has gone mad must not send us round for ever.
  if (written - read > kMailboxMessages) written = read + kMailboxMessages;
  for (; read != written; ++read) {
    const Message& message = mailbox.messages[read % kMailboxMessages];
    const MessageHead head = message.head;  // once: what is checked is what is used
    const char* payload = nullptr;
    if (head.block == 0) {
      if (head.inline_bytes <= kMessagePayload && head.bytes == head.inline_bytes) {
        payload = message.payload;
      }
    } else if (head.block < kArenaBytes && head.bytes < kArenaBytes &&
               head.block + sizeof(BlockHeader) + head.bytes <= kArenaBytes) {
      payload = segment_->payload(from, head.block);
    }
    if (payload != nullptr) sink(from, head, payload);
    mailbox.read.store(read + 1, std::memory_order_release);
  }
  StoreLoadFence();
  if (mailbox.sender_waits.load(std::memory_order_relaxed) != 0 &&
      mailbox.sender_waits.exchange(0) != 0) {
    segment_->Ring(from);
  }
}

void Transport::Acknowledge(int from, uint64_t block) {
  segment_->header(from, block).read_by[host_].store(1, std::memory_order_seq_cst);
  std::atomic<uint32_t>& wants_space = segment_->doorbell(from).wants_space;
  if (wants_space.load(std::memory_order_seq_cst) != 0 && wants_space.exchange(0) != 0) {
    segment_->Ring(from);
  }
}

bool Transport::HasWork() {
  for (const std::unique_ptr<Outgoing>& outgoing : outgoing_) {
    if (outgoing->has_queued.load(std::memory_order_relaxed)) return true;
  }
  return HasMail();
}

bool Transport::HasMail() {
  for (int from = 0; from < hosts(); ++from) {
    Mailbox& mailbox = segment_->mailbox(host_, from);
    if (mailbox.written.load(std::memory_order_acquire) !=
        mailbox.read.load(std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void Transport::Sleep(int milliseconds, const std::atomic<bool>& stop) {
  segment_->Sleep(host_, milliseconds,
                  [&] { return stop.load(std::memory_order_acquire) || HasMail(); });
}

void Transport::HostLost(int host) {
  Outgoing& outgoing = *outgoing_[host];
  outgoing.lost.store(true, std::memory_order_relaxed);
  arena_.ReaderLost(host);
  MutexLock lock(outgoing.mutex);
  outgoing.queued.clear();
  outgoing.has_queued.store(false, std::memory_order_relaxed);
}

}  // namespace shardway::comm
