// Threads of this library inside somebody else's process.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace shardway::client {

// Whether this thread is one of the library's own. Those keep a session going, so they must never
// wait for it.
inline bool& OnQuietThread() {
  thread_local bool quiet = false;
  return quiet;
}

// A thread that takes no signals but for its own faults: they are for the user's threads (Ctrl-C
// must interrupt what Python's main thread waits in). `name` shows in debuggers; at most 15
// characters.
template <typename Body>
std::thread StartQuietThread(const char* name, Body body) {
  sigset_t all, previous;
  sigfillset(&all);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  std::thread thread([body = std::move(body)]() mutable {
    OnQuietThread() = true;
    body();
  });
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace shardway::client
