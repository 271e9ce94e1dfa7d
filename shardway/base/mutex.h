// Mutex with clang's thread-safety annotations, over std::mutex (ThreadSanitizer reports false
// races in Debian's absl::Mutex). Every guarded member says by which mutex:
//
//   Mutex mutex_;
//   int count_ SHARDWAY_GUARDED_BY(mutex_) = 0;
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define SHARDWAY_ATTRIBUTE_(x) __attribute__((x))
#else
#define SHARDWAY_ATTRIBUTE_(x)
#endif

#define SHARDWAY_CAPABILITY(x) SHARDWAY_ATTRIBUTE_(capability(x))
#define SHARDWAY_SCOPED_CAPABILITY SHARDWAY_ATTRIBUTE_(scoped_lockable)
#define SHARDWAY_GUARDED_BY(x) SHARDWAY_ATTRIBUTE_(guarded_by(x))
#define SHARDWAY_REQUIRES(...) SHARDWAY_ATTRIBUTE_(requires_capability(__VA_ARGS__))
#define SHARDWAY_EXCLUDES(...) SHARDWAY_ATTRIBUTE_(locks_excluded(__VA_ARGS__))
#define SHARDWAY_ACQUIRE(...) SHARDWAY_ATTRIBUTE_(acquire_capability(__VA_ARGS__))
#define SHARDWAY_RELEASE(...) SHARDWAY_ATTRIBUTE_(release_capability(__VA_ARGS__))
#define SHARDWAY_TRY_ACQUIRE(...) SHARDWAY_ATTRIBUTE_(try_acquire_capability(__VA_ARGS__))
#define SHARDWAY_NO_THREAD_SAFETY_ANALYSIS SHARDWAY_ATTRIBUTE_(no_thread_safety_analysis)

namespace shardway {

class SHARDWAY_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() SHARDWAY_ACQUIRE() { mutex_.lock(); }
  void Unlock() SHARDWAY_RELEASE() { mutex_.unlock(); }
  bool TryLock() SHARDWAY_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class SHARDWAY_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) SHARDWAY_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() SHARDWAY_RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// A condition variable for Mutex. Wait functions are called with the mutex held; spurious wake-ups
// happen, so callers loop on their condition.
class CondVar {
 public:
  void Wait(Mutex& mutex) SHARDWAY_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  // False when `timeout` passed first. A steady clock is used.
  bool WaitFor(Mutex& mutex, std::chrono::nanoseconds timeout) SHARDWAY_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool woken = cv_.wait_until(lock, std::chrono::steady_clock::now() + timeout) ==
                       std::cv_status::no_timeout;
    lock.release();
    return woken;
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace shardway
