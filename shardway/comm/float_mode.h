// XLA computes with denormals flushed to zero, on inputs and results. A thread that reduces, or on
// which XLA continues a program, must do the same, or results differ between devices by bits.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace shardway::comm {

// The thread's floating-point mode is XLA's while this lives.
class ScopedXlaFloatMode {
 public:
#if defined(__x86_64__)
  ScopedXlaFloatMode() : saved_(_mm_getcsr()) {
    if ((saved_ & kFlush) != kFlush) _mm_setcsr(saved_ | kFlush);
  }
  ~ScopedXlaFloatMode() {
    if ((saved_ & kFlush) != kFlush) _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned kFlush = 0x8040;  // flush-to-zero, denormals-are-zero
  unsigned saved_;
#elif defined(__aarch64__)
  ScopedXlaFloatMode() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" ::"r"(saved_ | kFlush));
  }
  ~ScopedXlaFloatMode() { asm volatile("msr fpcr, %0" ::"r"(saved_)); }

 private:
  static constexpr uint64_t kFlush = uint64_t{1} << 24;
  uint64_t saved_;
#endif

 public:
  ScopedXlaFloatMode(const ScopedXlaFloatMode&) = delete;
  ScopedXlaFloatMode& operator=(const ScopedXlaFloatMode&) = delete;
};

}  // namespace shardway::comm
