#include "shardway/wire/handshake.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/wire/ring.h"
#include "shardway/wire/sealed_memory.h"

namespace shardway::wire {
namespace {

struct HelloBytes {
  uint32_t magic;
  uint32_t version;
  uint64_t ring_bytes;
};
constexpr uint32_t kMagic = 0x59574853;  // "SHWY"
constexpr uint32_t kVersion = 1;         // of the ring's layout

struct Incoming {
  size_t size = 0;
  UniqueFd fd;
  ucred credentials = {0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
};

absl::Status AwaitSocket(int socket, short events, TimePoint deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd entry = {socket, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready > 0) return absl::OkStatus();
    if (ready == 0)
      return absl::DeadlineExceededError("the peer of a channel did not answer in time");
    if (errno != EINTR) return ErrnoStatus(errno, "poll on a channel's socket");
  }
}

absl::Status SendWithDescriptor(int socket, const void* bytes, size_t size, int fd,
                                Duration timeout) {
  iovec part = {const_cast<void*>(bytes), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  header = CMSG_NXTHDR(&message, header);
  const ucred own = {getpid(), geteuid(), getegid()};
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_CREDENTIALS;
  header->cmsg_len = CMSG_LEN(sizeof(ucred));
  std::memcpy(CMSG_DATA(header), &own, sizeof(ucred));

  const TimePoint deadline = std::chrono::steady_clock::now() + timeout;
  while (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET) {
      return absl::UnavailableError("the peer of a channel is gone");
    }
    if (errno != EAGAIN) return ErrnoStatus(errno, "sending a descriptor");
    SHARDWAY_RETURN_IF_ERROR(AwaitSocket(socket, POLLOUT, deadline));
  }
  return absl::OkStatus();
}

absl::StatusOr<Incoming> ReceiveWithDescriptor(int socket, void* bytes, size_t capacity,
                                               Duration timeout) {
  iovec part = {bytes, capacity};
  // Room for one descriptor: the kernel drops others that a peer might attach.
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))];
  msghdr message = {};
  const TimePoint deadline = std::chrono::steady_clock::now() + timeout;
  ssize_t got;
  while (true) {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got >= 0) break;
    if (errno == EINTR) continue;
    if (errno == ECONNRESET) return absl::UnavailableError("the peer of a channel is gone");
    if (errno != EAGAIN) return ErrnoStatus(errno, "receiving a descriptor");
    SHARDWAY_RETURN_IF_ERROR(AwaitSocket(socket, POLLIN, deadline));
  }
  Incoming incoming;
  incoming.size = static_cast<size_t>(got);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET) continue;
    if (header->cmsg_type == SCM_RIGHTS && header->cmsg_len >= CMSG_LEN(sizeof(int))) {
      // The buffer holds more descriptors than one when no credentials came along.
      const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        incoming.fd.Reset(fd);
      }
    } else if (header->cmsg_type == SCM_CREDENTIALS &&
               header->cmsg_len == CMSG_LEN(sizeof(ucred))) {
      std::memcpy(&incoming.credentials, CMSG_DATA(header), sizeof(ucred));
    }
  }
  if (got == 0) return absl::UnavailableError("the peer of a channel closed it");
  if (!incoming.fd.valid()) {
    return absl::DataLossError("the peer of a channel sent no descriptor where one was due");
  }
  return incoming;
}

}  // namespace

absl::Status SendHello(const UniqueFd& socket, const UniqueFd& ring, uint64_t ring_bytes) {
  const int on = 1;
  if (setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0) {
    return ErrnoStatus(errno, "a channel needs a Unix socket: SO_PASSCRED");
  }
  const HelloBytes hello = {kMagic, kVersion, ring_bytes};
  return SendWithDescriptor(socket.get(), &hello, sizeof(hello), ring.get(), Duration::zero());
}

absl::StatusOr<PeerHello> ReceiveHello(const UniqueFd& socket, Duration timeout) {
  HelloBytes hello;
  SHARDWAY_ASSIGN_OR_RETURN(Incoming incoming,
                            ReceiveWithDescriptor(socket.get(), &hello, sizeof(hello), timeout));
  if (incoming.size != sizeof(hello) || hello.magic != kMagic) {
    return absl::DataLossError("the peer of a channel does not speak Shardway's protocol");
  }
  if (hello.version != kVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the peer of a channel has version ", hello.version, " of its layout, here is ", kVersion,
        ": both must come from the same release"));
  }
  if (incoming.credentials.uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat("the peer of a channel is user ",
                                                    incoming.credentials.uid, ", not ", geteuid()));
  }
  return PeerHello{hello.ring_bytes, std::move(incoming.fd), incoming.credentials.pid};
}

absl::Status SendDescriptor(const UniqueFd& socket, int fd, Duration timeout) {
  const char byte = 0;
  return SendWithDescriptor(socket.get(), &byte, 1, fd, timeout);
}

absl::StatusOr<UniqueFd> ReceiveDescriptor(const UniqueFd& socket, Duration timeout) {
  char byte;
  SHARDWAY_ASSIGN_OR_RETURN(Incoming incoming,
                            ReceiveWithDescriptor(socket.get(), &byte, 1, timeout));
  return std::move(incoming.fd);
}

PeerWatch::PeerWatch(int socket, int pid, std::function<void()> gone)
    : socket_(socket),
      process_(pid > 0 ? static_cast<int>(syscall(SYS_pidfd_open, pid, 0)) : -1),
      watcher_(PeerWatcher::Get()),
      watched_(watcher_ == nullptr ? 0 : watcher_->Add(socket, process_.get(), std::move(gone))) {}

PeerWatch::~PeerWatch() {
  if (watcher_ != nullptr) watcher_->Remove(watched_, socket_, process_.get());
}

bool PeerWatch::Gone() const {
  pollfd entries[2] = {{socket_, POLLRDHUP, 0}, {process_.get(), POLLIN, 0}};
  if (poll(entries, 2, 0) <= 0) return false;
  return (entries[0].revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0 ||
         (entries[1].revents & POLLIN) != 0;
}

}  // namespace shardway::wire
