#include "shardway/wire/ring.h"

#include <sys/mman.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/wire/futex.h"
#include "shardway/wire/sealed_memory.h"

namespace shardway::wire {
namespace {

constexpr uint64_t FrameBytes(uint64_t payload) {
  return (RingMemory::kFrameHeader + payload + 7) & ~uint64_t{7};
}

void WakeIfAsleep(std::atomic<uint32_t>& word) {
  if (word.load() != 0 && word.exchange(0) != 0) FutexWakeAll(word);
}

static_assert(sizeof(RingHeader) <= RingMemory::kHeaderBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace

bool RingMemory::ValidSize(uint64_t ring_bytes) {
  return ring_bytes >= 4096 && ring_bytes <= kMaxRingBytes && (ring_bytes & (ring_bytes - 1)) == 0;
}

absl::StatusOr<UniqueFd> RingMemory::Create(uint64_t ring_bytes) {
  if (!ValidSize(ring_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ring of ", ring_bytes, " bytes: must be a power of two of at least 4096"));
  }
  return CreateSealedMemory("shardway-ring", kHeaderBytes + ring_bytes);
}

absl::StatusOr<RingMemory> RingMemory::Map(const UniqueFd& fd, uint64_t ring_bytes) {
  if (!ValidSize(ring_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("a ring of ", ring_bytes, " bytes"));
  }
  SHARDWAY_RETURN_IF_ERROR(CheckSealedMemory(fd.get(), kHeaderBytes + ring_bytes));
  const uint64_t total = kHeaderBytes + 2 * ring_bytes;
  void* reserved = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) return ErrnoStatus(errno, "reserving addresses for a ring");
  RingMemory memory(static_cast<char*>(reserved), ring_bytes);  // unmaps on failure
  const int protection = PROT_READ | PROT_WRITE;
  const int flags = MAP_SHARED | MAP_FIXED;
  if (mmap(memory.base_, kHeaderBytes + ring_bytes, protection, flags, fd.get(), 0) == MAP_FAILED ||
      mmap(memory.data() + ring_bytes, ring_bytes, protection, flags, fd.get(), kHeaderBytes) ==
          MAP_FAILED) {
    return ErrnoStatus(errno, "mapping a ring");
  }
  return memory;
}

RingMemory& RingMemory::operator=(RingMemory&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(size_, other.size_);
  return *this;
}

RingMemory::~RingMemory() {
  if (base_ != nullptr) munmap(base_, kHeaderBytes + 2 * size_);
}

char* RingWriter::Reserve(uint64_t payload, bool* broken) {
  *broken = false;
  const uint64_t need = FrameBytes(payload);
  const uint64_t size = memory_.ring_bytes();
  if (head_ + need - known_tail_ > size) {
    const uint64_t tail = memory_.header().tail.load();
    if (head_ - tail > size) {
      *broken = true;
      return nullptr;
    }
    known_tail_ = tail;
    if (head_ + need - tail > size) return nullptr;
  }
  return memory_.data() + (head_ & (size - 1)) + RingMemory::kFrameHeader;
}

void RingWriter::Commit(uint64_t payload, uint32_t flags) {
  char* at = memory_.data() + (head_ & (memory_.ring_bytes() - 1));
  const uint64_t header = payload | (uint64_t{flags} << 32);
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at))
      .store(header, std::memory_order_relaxed);
  head_ += FrameBytes(payload);
  memory_.header().head.store(head_);
}

void RingWriter::WaitForRoom(uint64_t payload, Duration timeout, const std::atomic<bool>& awake) {
  RingHeader& header = memory_.header();
  header.writer_sleeps.store(1);
  if (head_ + FrameBytes(payload) - header.tail.load() > memory_.ring_bytes() &&
      header.reader_closed.load() == 0 && !awake.load()) {
    FutexWait(header.writer_sleeps, 1, timeout);
  }
  header.writer_sleeps.store(0);
}

void RingWriter::WakeReaderIfAsleep() { WakeIfAsleep(memory_.header().reader_sleeps); }

void RingWriter::Close() {
  memory_.header().writer_closed.store(1);
  WakeIfAsleep(memory_.header().reader_sleeps);
}

void RingWriter::Interrupt() { WakeIfAsleep(memory_.header().writer_sleeps); }

RingReader::State RingReader::Peek(Frame* frame) {
  const uint64_t head = memory_.header().head.load(std::memory_order_acquire);
  if (head == tail_) return State::kEmpty;
  const uint64_t size = memory_.ring_bytes();
  const uint64_t available = head - tail_;
  if (available > size || available % 8 != 0) return State::kBroken;
  char* at = memory_.data() + (tail_ & (size - 1));
  const uint64_t header =
      std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at)).load(std::memory_order_relaxed);
  frame->payload = at + RingMemory::kFrameHeader;
  frame->size = static_cast<uint32_t>(header);
  frame->flags = static_cast<uint32_t>(header >> 32);
  if (FrameBytes(frame->size) > available) return State::kBroken;
  if ((frame->flags & ~(kFrameMore | kFrameFd)) != 0) return State::kBroken;
  return State::kFrame;
}

void RingReader::Consume(const Frame& frame) {
  tail_ += FrameBytes(frame.size);
  RingHeader& header = memory_.header();
  header.tail.store(tail_);
  if (header.writer_sleeps.load() != 0 &&
      header.head.load(std::memory_order_relaxed) - tail_ <= memory_.ring_bytes() / 2) {
    WakeIfAsleep(header.writer_sleeps);
  }
}

void RingReader::WaitForData(Duration timeout, const std::atomic<bool>& awake) {
  RingHeader& header = memory_.header();
  header.reader_sleeps.store(1);
  if (header.head.load() == tail_ && header.writer_closed.load() == 0 && !awake.load()) {
    FutexWait(header.reader_sleeps, 1, timeout);
  }
  header.reader_sleeps.store(0);
}

void RingReader::Close() {
  memory_.header().reader_closed.store(1);
  WakeIfAsleep(memory_.header().writer_sleeps);
}

void RingReader::Interrupt() { WakeIfAsleep(memory_.header().reader_sleeps); }

}  // namespace shardway::wire
