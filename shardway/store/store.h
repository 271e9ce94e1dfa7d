// This host's arrays by name. Names are resolved when a message is read, so that a free overtakes
// the runs queued before it: they hold the arrays they use.
//
// Not thread-safe: the control thread's own. Arrays and shards are shared with all other threads.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "shardway/base/ids.h"
#include "shardway/store/account.h"
#include "shardway/store/array.h"

namespace shardway::store {

class Store {
 public:
  explicit Store(int num_devices) : num_devices_(num_devices) {}

  // ALREADY_EXISTS when it is open.
  absl::Status OpenSession(SessionId session);
  // Drops all arrays of the session; how many there were. Shards that queued runs hold live on
  // until these have ended.
  size_t CloseSession(SessionId session);

  // The session that an array id belongs to must be open (NOT_FOUND) and not have it
  // (ALREADY_EXISTS).
  absl::Status Insert(ArrayId id, std::shared_ptr<const Array> array);
  // Null when there is no such array.
  std::shared_ptr<const Array> Find(ArrayId id) const;
  bool Erase(ArrayId id);

  // What the session holds; null when it is not open.
  std::shared_ptr<Account> account(SessionId session) const;
  size_t num_arrays() const;

 private:
  struct Session {
    std::shared_ptr<Account> account;
    absl::flat_hash_map<ArrayId, std::shared_ptr<const Array>> arrays;
  };

  const int num_devices_;
  absl::flat_hash_map<SessionId, Session> sessions_;
};

}  // namespace shardway::store
