#include "shardway/controller/outbox.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace shardway::controller {

Outbox::~Outbox() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

absl::Status Outbox::Send(std::string_view message, int fd) {
  MutexLock lock(mutex_);
  if (!status_.ok()) {
    return status_;
  }
  if (kept_.empty()) {
    absl::StatusOr<bool> sent = channel_->TrySendBytes(message, fd);
    if (!sent.ok()) {
      status_ = sent.status();
      return status_;
    }
    if (*sent) {
      return absl::OkStatus();
    }
  }
  if (kept_bytes_ + message.size() > max_backlog_bytes_) {
    status_ = absl::UnavailableError(
        absl::StrCat("it does not read: ", kept_bytes_, " bytes wait to be sent to it"));
    return status_;
  }
  wire::UniqueFd own(fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (fd >= 0 && !own.valid()) {
    status_ = absl::ErrnoToStatus(errno, "cannot keep a descriptor for later");
    return status_;
  }
  kept_.push_back({std::string(message), std::move(own)});
  kept_bytes_ += message.size();
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { SendKept(); });
  }
  changed_.NotifyAll();
  return absl::OkStatus();
}

void Outbox::SendKept() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!stopping_ && (kept_.empty() || !status_.ok())) {
      changed_.Wait(mutex_);
    }
    if (stopping_) {
      return;
    }
    const Kept& next = kept_.front();  // stays where it is: others only append
    mutex_.Unlock();
    absl::Status sent = channel_->SendBytes(next.message, next.fd.get());
    mutex_.Lock();
    if (!sent.ok()) {
      status_ = std::move(sent);
      kept_.clear();
      kept_bytes_ = 0;
      continue;
    }
    kept_bytes_ -= next.message.size();
    kept_.pop_front();
  }
}

}  // namespace shardway::controller
