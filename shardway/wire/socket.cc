#include "shardway/wire/socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/wire/sealed_memory.h"

namespace shardway::wire {
namespace {

TimePoint Now() { return std::chrono::steady_clock::now(); }

bool ConsumePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

struct UnixAddress {
  sockaddr_un address = {};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

absl::StatusOr<UnixAddress> ParseUnix(std::string_view text) {
  std::string_view name = text;
  if (!ConsumePrefix(&name, "unix:") || name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("address '", std::string(text), "': must be unix:@name, unix:/path or fd:N"));
  }
  UnixAddress result;
  result.address.sun_family = AF_UNIX;
  if (name.size() >= sizeof(result.address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("address '", std::string(text), "' is too long"));
  }
  std::copy(name.begin(), name.end(), result.address.sun_path);
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (name.front() == '@') {
    result.address.sun_path[0] = '\0';
  } else {
    result.length += 1;  // a path ends with its zero
  }
  return result;
}

absl::StatusOr<UniqueFd> NewSocket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "socket");
  return fd;
}

absl::Status CheckUser(int socket) {
  ucred peer;
  socklen_t length = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return ErrnoStatus(errno, "SO_PEERCRED");
  }
  if (peer.uid == geteuid()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the other end of the socket belongs to user ", peer.uid, ", not ", geteuid()));
}

absl::StatusOr<UniqueFd> Inherited(const std::string& number) {
  int fd;
  if (!absl::SimpleAtoi(number, &fd) || fd < 0) {
    return absl::InvalidArgumentError(absl::StrCat("address 'fd:", number, "': no descriptor"));
  }
  int domain;
  socklen_t length = sizeof(domain);
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0 || domain != AF_UNIX) {
    return absl::InvalidArgumentError(
        absl::StrCat("descriptor ", fd, " is not a Unix socket that this process inherited"));
  }
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  return UniqueFd(fd);
}

}  // namespace

absl::StatusOr<UniqueFd> Listen(std::string_view address) {
  SHARDWAY_ASSIGN_OR_RETURN(const UnixAddress name, ParseUnix(address));
  SHARDWAY_ASSIGN_OR_RETURN(UniqueFd fd, NewSocket());
  if (bind(fd.get(), name.get(), name.length) != 0) {
    if (errno == EADDRINUSE) {
      return absl::AlreadyExistsError(
          absl::StrCat("another process listens at ", std::string(address)));
    }
    return ErrnoStatus(errno, "bind");
  }
  if (listen(fd.get(), 64) != 0) return ErrnoStatus(errno, "listen");
  return fd;
}

absl::StatusOr<UniqueFd> Accept(const UniqueFd& listener, Duration timeout) {
  const TimePoint deadline = Now() + timeout;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Now());
    pollfd entry = {listener.get(), POLLIN, 0};
    const int ready =
        poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30)));
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "poll on a listening socket");
    if (ready == 0) return absl::DeadlineExceededError("nobody connected in time");
    if (ready < 0) continue;
    UniqueFd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EINTR || errno == EAGAIN || errno == ECONNABORTED) continue;
      return ErrnoStatus(errno, "accept");
    }
    if (CheckUser(fd.get()).ok()) return fd;
  }
}

absl::StatusOr<UniqueFd> Connect(std::string_view address, Duration timeout) {
  std::string_view number = address;
  if (ConsumePrefix(&number, "fd:")) return Inherited(std::string(number));
  SHARDWAY_ASSIGN_OR_RETURN(const UnixAddress name, ParseUnix(address));
  const TimePoint deadline = Now() + timeout;
  while (true) {
    SHARDWAY_ASSIGN_OR_RETURN(UniqueFd fd, NewSocket());
    if (connect(fd.get(), name.get(), name.length) == 0) {
      SHARDWAY_RETURN_IF_ERROR(CheckUser(fd.get()));
      return fd;
    }
    const int error = errno;
    if (error != ECONNREFUSED && error != ENOENT && error != EAGAIN && error != EINTR) {
      return ErrnoStatus(error, "connect");
    }
    if (Now() >= deadline) {
      return absl::UnavailableError(absl::StrCat("nobody listens at ", std::string(address), " (",
                                                 std::strerror(error),
                                                 "): is the cluster running?"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> SocketPair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    return ErrnoStatus(errno, "socketpair");
  }
  return std::make_pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

void KeepOverExec(int fd) {
  const int flags = fcntl(fd, F_GETFD);
  if (flags >= 0) fcntl(fd, F_SETFD, flags & ~FD_CLOEXEC);
}

}  // namespace shardway::wire
