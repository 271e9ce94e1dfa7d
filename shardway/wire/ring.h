// One direction of a channel: a single-producer single-consumer ring of bytes in a sealed memfd.
//
//   memfd  := header page, data[ring_bytes]
//   data   := frame*, wrapping around; it is mapped twice in a row, so every frame is contiguous
//   frame  := size:u32 flags:u32 payload[size] padding to 8
//   flags  := kMore (the message goes on in the next frame) | kFd (a descriptor came with it)
//
// `head` (bytes ever written) belongs to the writer, `tail` (bytes ever consumed) to the reader;
// both keep their own in private memory and only publish it. The other's is read once, checked,
// then used. Frames are at most half the ring, so a writer that waits for room is woken once half
// of it is free.
//
// Who sleeps sets its word in the header before it looks again and sleeps on it; who publishes
// looks at that word afterwards. Both sides use sequentially consistent order there: one of them
// sees the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardway/base/clock.h"
#include "shardway/wire/unique_fd.h"

namespace shardway::wire {

inline constexpr uint32_t kFrameMore = 1;
inline constexpr uint32_t kFrameFd = 2;

struct RingHeader {
  alignas(64) std::atomic<uint64_t> head;
  std::atomic<uint32_t> writer_closed;
  alignas(64) std::atomic<uint64_t> tail;
  std::atomic<uint32_t> reader_closed;
  alignas(64) std::atomic<uint32_t> reader_sleeps;
  alignas(64) std::atomic<uint32_t> writer_sleeps;
};

// The mapping of a ring, ours or the peer's. Movable.
class RingMemory {
 public:
  static constexpr uint64_t kHeaderBytes = 4096;
  static constexpr uint64_t kMaxRingBytes = uint64_t{1} << 30;
  static constexpr uint64_t kFrameHeader = 8;

  static bool ValidSize(uint64_t ring_bytes);
  // The memfd of a new ring.
  static absl::StatusOr<UniqueFd> Create(uint64_t ring_bytes);
  // Maps a ring that came from outside, or our own.
  static absl::StatusOr<RingMemory> Map(const UniqueFd& fd, uint64_t ring_bytes);

  RingMemory() = default;
  RingMemory(RingMemory&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  RingMemory& operator=(RingMemory&& other) noexcept;
  ~RingMemory();

  RingHeader& header() const { return *reinterpret_cast<RingHeader*>(base_); }
  char* data() const { return base_ + kHeaderBytes; }
  uint64_t ring_bytes() const { return size_; }

 private:
  RingMemory(char* base, uint64_t ring_bytes) : base_(base), size_(ring_bytes) {}

  char* base_ = nullptr;
  uint64_t size_ = 0;
};

// The writing end. One thread at a time (the channel's send mutex), except where said.
class RingWriter {
 public:
  explicit RingWriter(RingMemory memory) : memory_(std::move(memory)) {}

  // The largest payload of one frame.
  uint64_t max_payload() const { return memory_.ring_bytes() / 2 - RingMemory::kFrameHeader; }

  // Room for one frame of `payload` bytes, or null when the ring is too full now. `*broken` when
  // the reader's position makes no sense.
  char* Reserve(uint64_t payload, bool* broken);
  // Publishes the frame that Reserve made room for.
  void Commit(uint64_t payload, uint32_t flags);
  // Sleeps until there may be room for `payload` bytes, the reader has closed, or `timeout` has
  // passed. Who sets `awake` and then calls Interrupt ends it too, whenever that happens.
  void WaitForRoom(uint64_t payload, Duration timeout, const std::atomic<bool>& awake);

  // Any thread:
  void WakeReaderIfAsleep();
  void Close();      // publishes that nothing follows, wakes the reader
  void Interrupt();  // wakes whoever is in WaitForRoom
  bool reader_closed() const { return memory_.header().reader_closed.load() != 0; }

 private:
  RingMemory memory_;
  uint64_t head_ = 0;
  uint64_t known_tail_ = 0;
};

// The reading end. One thread at a time, except where said.
class RingReader {
 public:
  explicit RingReader(RingMemory memory) : memory_(std::move(memory)) {}

  struct Frame {
    const char* payload;  // in shared memory: may change while it is read; copy it once
    uint32_t size;
    uint32_t flags;
  };
  enum class State { kEmpty, kFrame, kBroken };
  // The next frame, if there is one. It stays until Consume.
  State Peek(Frame* frame);
  void Consume(const Frame& frame);

  bool empty() const { return memory_.header().head.load(std::memory_order_acquire) == tail_; }
  // Sleeps until something may have come, the writer has closed, or `timeout` has passed; `awake`
  // as above.
  void WaitForData(Duration timeout, const std::atomic<bool>& awake);

  // Any thread:
  void Close();      // publishes that nobody reads any more, wakes the writer
  void Interrupt();  // wakes whoever is in WaitForData
  bool writer_closed() const { return memory_.header().writer_closed.load() != 0; }

 private:
  RingMemory memory_;
  uint64_t tail_ = 0;
};

}  // namespace shardway::wire
