// Messages between this host and the others of the machine, over a SharedSegment. Sending never
// blocks: what a full mailbox doesn't take waits here. Receiving is a call, made by whoever has
// time: a device in its collective, or the poller.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "shardway/base/mutex.h"
#include "shardway/comm/arena.h"
#include "shardway/comm/shared_segment.h"

namespace shardway::comm {

class Transport {
 public:
  // `payload` is inside the message or the sender's arena; it is checked to be inside.
  using Sink = std::function<void(int from, const MessageHead& head, const char* payload)>;

  Transport(std::unique_ptr<SharedSegment> segment, int host);

  int host() const { return host_; }
  int hosts() const { return segment_->hosts(); }
  Arena& arena() { return arena_; }
  char* Payload(uint64_t block) { return PayloadOf(host_, block); }
  char* PayloadOf(int host, uint64_t block) { return segment_->payload(host, block); }

  // Puts a message into `to`'s mailbox. Its receiver is woken only by Ring (or when its mailbox is
  // full). Copies `inline_payload` (kMessagePayload bytes at most) into it. Any thread.
  void Send(int to, const MessageHead& head, absl::Span<const char> inline_payload);
  void Ring(int to) { segment_->Ring(to); }
  // The same, unless a thread of `to` looks for mail by itself.
  void RingForMail(int to) { segment_->RingForMail(to); }

  // Between the two the calling thread looks for work all the time, so that nobody needs to ring
  // for mail. After StopPolling it must look once more.
  void StartPolling() { segment_->doorbell(host_).polling.fetch_add(1, std::memory_order_relaxed); }
  void StopPolling() { segment_->doorbell(host_).polling.fetch_sub(1, std::memory_order_seq_cst); }

  // Gives every message that has arrived to `sink`, in the order of each sender; messages of one
  // sender never go to two threads at once. First sends what was kept back; true when there was
  // such. Any thread, but not from `sink`.
  bool Receive(const Sink& sink);
  // Whether Receive would find anything to do.
  bool HasWork();
  // Held while messages go to a sink: who holds it sees none coming.
  Mutex& receive_mutex() { return receive_mutex_; }
  // This host has read block `block` of `from`'s arena.
  void Acknowledge(int from, uint64_t block);

  // Has the doorbell rung when a payload of ours is read.
  void RingWhenRead() { segment_->doorbell(host_).wants_space.store(1, std::memory_order_seq_cst); }

  // For the poller: sleeps until a doorbell or for `milliseconds`, unless `stop` is set.
  void Sleep(int milliseconds, const std::atomic<bool>& stop);
  // For Stop of the poller's thread.
  void RingSelf() { segment_->Ring(host_); }

  // Nothing is sent to `host` any more, nor waited for.
  void HostLost(int host);

 private:
  struct alignas(64) Outgoing {
    Mutex mutex;
    std::deque<Message> queued SHARDWAY_GUARDED_BY(mutex);
    std::atomic<bool> has_queued{false};
    std::atomic<bool> lost{false};
  };
  bool Put(int to, const MessageHead& head, absl::Span<const char> inline_payload);
  bool FlushQueued(int to);
  bool HasMail();
  void ReceiveFrom(int from, const Sink& sink) SHARDWAY_REQUIRES(receive_mutex_);

  const std::unique_ptr<SharedSegment> segment_;
  const int host_;
  Arena arena_;
  std::vector<std::unique_ptr<Outgoing>> outgoing_;
  Mutex receive_mutex_;
};

}  // namespace shardway::comm
