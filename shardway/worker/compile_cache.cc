#include "shardway/worker/compile_cache.h"

#include <utility>

namespace shardway::worker {

CompileCache::Result CompileCache::Get(const std::string& key,
                                       const std::function<Result()>& compile) {
  std::shared_ptr<Entry> entry;
  {
    MutexLock lock(mutex_);
    if (auto found = index_.find(key); found != index_.end()) {
      recent_.splice(recent_.begin(), recent_, found->second);
      entry = recent_.front().second;
      while (!entry->done) done_.Wait(mutex_);  // another thread compiles; it always ends
      return entry->result;
    }
    entry = std::make_shared<Entry>();
    recent_.emplace_front(key, entry);
    index_[recent_.front().first] = recent_.begin();
  }
  Result result = compile();
  MutexLock lock(mutex_);
  entry->result = result;
  entry->done = true;
  done_.NotifyAll();
  auto found = index_.find(key);
  if (!result.ok() && found != index_.end() && found->second->second == entry) {
    const Recent::iterator failed = found->second;
    index_.erase(found);
    recent_.erase(failed);
  }
  while (recent_.size() > capacity_ && recent_.back().second->done) {
    index_.erase(recent_.back().first);
    recent_.pop_back();
  }
  return result;
}

size_t CompileCache::size() const {
  MutexLock lock(mutex_);
  return recent_.size();
}

}  // namespace shardway::worker
