// Calls a function at intervals, on a thread of its own.
#pragma once

#include <functional>
#include <thread>

#include "shardway/base/clock.h"
#include "shardway/base/mutex.h"

namespace shardway::comm {

class Watchdog {
 public:
  Watchdog(Duration interval, std::function<void()> look)
      : thread_([this, interval, look = std::move(look)] {
          MutexLock lock(mutex_);
          while (!stopping_) {
            wake_.WaitFor(mutex_, interval);
            if (stopping_) return;
            mutex_.Unlock();
            look();
            mutex_.Lock();
          }
        }) {}
  ~Watchdog() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    wake_.NotifyAll();
    thread_.join();
  }

 private:
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ SHARDWAY_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: started when the rest is there
};

}  // namespace shardway::comm
