#include "shardway/store/store.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace shardway::store {

absl::Status Store::OpenSession(SessionId session) {
  auto [it, added] = sessions_.try_emplace(session);
  if (!added) {
    return absl::AlreadyExistsError(absl::StrCat("session ", session.value, " is open already"));
  }
  it->second.account = std::make_shared<Account>(num_devices_);
  return absl::OkStatus();
}

size_t Store::CloseSession(SessionId session) {
  auto it = sessions_.find(session);
  if (it == sessions_.end()) return 0;
  const size_t count = it->second.arrays.size();
  sessions_.erase(it);
  return count;
}

absl::Status Store::Insert(ArrayId id, std::shared_ptr<const Array> array) {
  auto it = sessions_.find(SessionOf(id));
  if (it == sessions_.end()) {
    return absl::NotFoundError(
        absl::StrCat("session ", SessionOf(id).value, " of array ", id.value, " is not open"));
  }
  if (!it->second.arrays.try_emplace(id, std::move(array)).second) {
    return absl::AlreadyExistsError(absl::StrCat("array ", LocalId(id).value, " of session ",
                                                 SessionOf(id).value, " exists already"));
  }
  return absl::OkStatus();
}

std::shared_ptr<const Array> Store::Find(ArrayId id) const {
  auto session = sessions_.find(SessionOf(id));
  if (session == sessions_.end()) return nullptr;
  auto array = session->second.arrays.find(id);
  return array == session->second.arrays.end() ? nullptr : array->second;
}

bool Store::Erase(ArrayId id) {
  auto session = sessions_.find(SessionOf(id));
  return session != sessions_.end() && session->second.arrays.erase(id) > 0;
}

std::shared_ptr<Account> Store::account(SessionId session) const {
  auto it = sessions_.find(session);
  return it == sessions_.end() ? nullptr : it->second.account;
}

size_t Store::num_arrays() const {
  size_t count = 0;
  for (const auto& [id, session] : sessions_) count += session.arrays.size();
  return count;
}

}  // namespace shardway::store
