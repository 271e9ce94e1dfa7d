#include "shardway/controller/program_store.h"

#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "shardway/base/logging.h"

namespace shardway::controller {
namespace {

absl::StatusOr<program::ProgramPtr> Shared(absl::StatusOr<compile::Partitioned> compiled) {
  if (!compiled.ok()) {
    return compiled.status();
  }
  return std::make_shared<const compile::Partitioned>(*std::move(compiled));
}

}  // namespace

bool ProgramStore::Key::operator==(const Key& other) const {
  const compile::Request& x = request;
  const compile::Request& y = other.request;
  return (x.artifact == y.artifact || *x.artifact == *y.artifact) &&
         x.num_replicas == y.num_replicas && x.num_partitions == y.num_partitions &&
         x.allow_propagation_to_parameters == y.allow_propagation_to_parameters &&
         x.allow_propagation_to_results == y.allow_propagation_to_results &&
         x.use_shardy == y.use_shardy && x.places == y.places && x.link_prices == y.link_prices;
}

ProgramStore::ProgramStore(CompileFunction compile, int threads, size_t max_programs,
                           size_t max_bytes)
    : compile_(std::move(compile)), max_programs_(max_programs), max_bytes_(max_bytes) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Work(); });
  }
}

ProgramStore::~ProgramStore() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
  for (auto& [key, entry] : entries_) {
    for (Done& done : entry.waiting) {
      done(absl::CancelledError("the controller is shutting down"));
    }
  }
}

void ProgramStore::Get(compile::Request request, Done done) {
  program::ProgramPtr found;
  {
    MutexLock lock(mutex_);
    auto [it, added] = entries_.try_emplace(Key{std::move(request)});
    if (it->second.program != nullptr) {
      found = it->second.program;
    } else {
      it->second.waiting.push_back(std::move(done));
      if (added) {
        to_compile_.push_back(it->first);
        changed_.NotifyOne();
      }
      return;
    }
  }
  done(std::move(found));
}

int64_t ProgramStore::compiles() const {
  MutexLock lock(mutex_);
  return compiles_;
}

void ProgramStore::Work() {
  for (;;) {
    Key key;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && to_compile_.empty()) {
        changed_.Wait(mutex_);
      }
      if (stopping_) {
        return;
      }
      key = std::move(to_compile_.front());
      to_compile_.pop_front();
      ++compiles_;
    }
    const auto begin = std::chrono::steady_clock::now();
    absl::StatusOr<compile::Partitioned> compiled = compile_(key.request);
    LOG_INFO("partitioned {} in {} us", compiled.ok() ? compiled->name : "a program (failed)",
             (std::chrono::steady_clock::now() - begin) / std::chrono::microseconds(1));
    const absl::StatusOr<program::ProgramPtr> result = Shared(std::move(compiled));
    std::vector<Done> waiting;
    {
      MutexLock lock(mutex_);
      auto it = entries_.find(key);
      waiting = std::move(it->second.waiting);
      if (result.ok()) {
        it->second.program = *result;
        kept_bytes_ += key.request.artifact->size();
        kept_.push_back(std::move(key));
      } else {
        entries_.erase(it);
      }
      while (kept_.size() > max_programs_ || (kept_bytes_ > max_bytes_ && kept_.size() > 1)) {
        kept_bytes_ -= kept_.front().request.artifact->size();
        entries_.erase(kept_.front());
        kept_.pop_front();
      }
    }
    for (Done& done : waiting) {
      done(result);
    }
  }
}

}  // namespace shardway::controller
