#include "shardway/wire/peer_watcher.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "shardway/base/mutex.h"
#include "shardway/wire/fork_guard.h"
#include "shardway/wire/unique_fd.h"

namespace shardway::wire {

struct PeerWatcher::State {
  const ForkGuard guard;
  UniqueFd epoll;
  Mutex mutex;  // held while a `gone` runs
  uint64_t last_id SHARDWAY_GUARDED_BY(mutex) = 0;
  std::map<uint64_t, std::function<void()>> watched SHARDWAY_GUARDED_BY(mutex);
};

PeerWatcher* PeerWatcher::Get() {
  struct Instance {
    ForkGuard guard;
    PeerWatcher* watcher;
  };
  static std::atomic<Instance*> current{nullptr};
  Instance* found = current.load(std::memory_order_acquire);
  while (found == nullptr || !found->guard.InOwner()) {
    auto* made = new Instance{.guard = {}, .watcher = Start()};
    // A child leaves the instance of its parent alone: its thread is not here.
    if (current.compare_exchange_strong(found, made, std::memory_order_acq_rel))
      return made->watcher;
    // Another thread was faster; the spare one watches nothing.
    delete made;
  }
  return found->watcher;
}

PeerWatcher* PeerWatcher::Start() {
  auto state = std::make_unique<State>();
  state->epoll = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!state->epoll.valid()) return nullptr;
  auto* watcher = new PeerWatcher(state.get());
  // Signals are for the user's threads.
  sigset_t all, previous;
  sigfillset(&all);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  try {
    std::thread thread([watcher] { watcher->Loop(); });
    pthread_setname_np(thread.native_handle(), "peer watch");
    thread.detach();
    state.release();
  } catch (const std::system_error&) {
    delete watcher;
    watcher = nullptr;
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  return watcher;
}

void PeerWatcher::Loop() {
  while (true) {
    epoll_event event;
    const int ready = epoll_wait(state_.epoll.get(), &event, 1, -1);
    if (ready < 0 && errno != EINTR) return;
    if (ready <= 0) continue;
    MutexLock lock(state_.mutex);
    auto it = state_.watched.find(event.data.u64);
    if (it == state_.watched.end()) continue;
    if (it->second != nullptr) std::exchange(it->second, nullptr)();
  }
}

uint64_t PeerWatcher::Add(int socket, int process, std::function<void()> gone) {
  MutexLock lock(state_.mutex);
  const uint64_t id = ++state_.last_id;
  state_.watched[id] = std::move(gone);
  epoll_event event = {};
  event.data.u64 = id;
  event.events = EPOLLRDHUP | EPOLLONESHOT;
  bool watched = epoll_ctl(state_.epoll.get(), EPOLL_CTL_ADD, socket, &event) == 0;
  if (watched && process >= 0) {
    event.events = EPOLLIN | EPOLLONESHOT;
    watched = epoll_ctl(state_.epoll.get(), EPOLL_CTL_ADD, process, &event) == 0;
    if (!watched) epoll_ctl(state_.epoll.get(), EPOLL_CTL_DEL, socket, nullptr);
  }
  if (watched) return id;
  state_.watched.erase(id);
  return 0;
}

void PeerWatcher::Remove(uint64_t id, int socket, int process) {
  if (id == 0 || !state_.guard.InOwner()) return;
  // Explicitly: a child may hold duplicates of the descriptors, so that closing them is not enough.
  epoll_ctl(state_.epoll.get(), EPOLL_CTL_DEL, socket, nullptr);
  if (process >= 0) epoll_ctl(state_.epoll.get(), EPOLL_CTL_DEL, process, nullptr);
  MutexLock lock(state_.mutex);
  state_.watched.erase(id);
}

}  // namespace shardway::wire
