#include "shardway/worker/run_log.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace shardway::worker {
namespace {

uint32_t* Address(std::atomic<uint32_t>& word) { return reinterpret_cast<uint32_t*>(&word); }
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

}  // namespace

RunLog::RunLog(int num_cursors) : num_cursors_(num_cursors), tail_(new Run), first_(tail_) {
  tail_->refs_.store(num_cursors + 1, std::memory_order_relaxed);
}

RunLog::~RunLog() { Drop(tail_); }

void RunLog::Drop(Run* run) {
  if (run->refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete run;
}

void RunLog::Append(std::unique_ptr<Run> run) {
  Run* node = run.release();
  node->refs_.store(num_cursors_ + 1, std::memory_order_relaxed);
  uint32_t bits = node->wake_bits;
  if (++appended_ % kWakeAllEvery == 0) bits = kEveryone;
  // Sequentially consistent with the sleepers: either they see the node, or we see them.
  tail_->next_.store(node, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) > 0) Wake(bits);
  Drop(std::exchange(tail_, node));
}

void RunLog::Wake(uint32_t bits) {
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, Address(epoch_), FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr, nullptr, bits);
}

void RunLog::Close() {
  closed_.store(true, std::memory_order_seq_cst);
  Wake(kEveryone);
}

RunLog::Cursor::Cursor(RunLog* log, int device)
    : log_(log), bit_(WakeBit(device)), current_(log->first_) {}

RunLog::Cursor::~Cursor() {
  while (current_ != nullptr) {
    Run* next = current_->next_.load(std::memory_order_acquire);
    log_->Drop(std::exchange(current_, next));
  }
}

Run* RunLog::Cursor::Next() {
  Run* next = current_->next_.load(std::memory_order_acquire);
  while (next == nullptr) {
    const uint32_t epoch = log_->epoch_.load(std::memory_order_seq_cst);
    log_->sleeping_.fetch_add(1, std::memory_order_seq_cst);
    next = current_->next_.load(std::memory_order_seq_cst);
    if (next == nullptr && !log_->closed_.load(std::memory_order_seq_cst)) {
      syscall(SYS_futex, Address(log_->epoch_), FUTEX_WAIT_BITSET_PRIVATE, epoch, nullptr, nullptr,
              bit_);
      next = current_->next_.load(std::memory_order_acquire);
    }
    log_->sleeping_.fetch_sub(1, std::memory_order_relaxed);
    if (next == nullptr && log_->closed_.load(std::memory_order_seq_cst)) return nullptr;
  }
  log_->Drop(std::exchange(current_, next));
  return current_;
}

}  // namespace shardway::worker
