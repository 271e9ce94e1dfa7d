#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "shardway/base/mutex.h"
#include "shardway/base/status_macros.h"
#include "shardway/wire/channel.h"
#include "shardway/wire/fork_guard.h"
#include "shardway/wire/handshake.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/ring.h"
#include "shardway/wire/socket.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace shardway::wire {
namespace {

// How often whoever sleeps looks whether the peer still lives: when its end is told, and when not.
// Messages don't wait for it.
constexpr Duration kLookAtWatchedPeer = std::chrono::seconds(5);
constexpr Duration kLookAtPeer = std::chrono::milliseconds(50);
// A descriptor is on the socket before its message is in the ring; an honest peer's is there.
constexpr Duration kDescriptorWait = std::chrono::seconds(1);
// Larger messages are copied in pieces, so that the reader can begin while the writer goes on.
constexpr uint64_t kPieceBytes = 128 << 10;
// A receive buffer larger than this is given back after its message.
constexpr size_t kKeepBuffer = 1 << 20;

TimePoint Now() { return std::chrono::steady_clock::now(); }

void CpuRelax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

class SharedMemoryChannel final : public Channel {
 public:
  SharedMemoryChannel(UniqueFd socket, RingMemory outgoing, PeerHello peer, RingMemory incoming,
                      const ChannelOptions& options)
      : options_(options),
        socket_(std::move(socket)),
        peer_pid_(peer.pid),
        writer_(std::move(outgoing)),
        reader_(std::move(incoming)),
        watch_(socket_.get(), peer.pid, [this] { Rouse(); }),
        look_at_peer_(watch_.watched() ? kLookAtWatchedPeer : kLookAtPeer) {}

  ~SharedMemoryChannel() override { Close(); }

  absl::Status Send(const google::protobuf::MessageLite& message, int fd) override {
    const size_t size = message.ByteSizeLong();
    if (size > DirectLimit()) return SendBytes(message.SerializeAsString(), fd);
    SHARDWAY_RETURN_IF_ERROR(CheckOwner());
    MutexLock lock(send_mutex_);
    SHARDWAY_RETURN_IF_ERROR(PassDescriptor(fd));
    char* room;
    SHARDWAY_RETURN_IF_ERROR(AwaitRoom(size, &room));
    message.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(room));
    writer_.Commit(size, fd >= 0 ? kFrameFd : 0);
    Wake();
    return absl::OkStatus();
  }

  absl::Status SendBytes(std::string_view bytes, int fd) override {
    if (bytes.size() > kMaxMessageBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a message of ", bytes.size(), " bytes is over the limit of ", kMaxMessageBytes));
    }
    SHARDWAY_RETURN_IF_ERROR(CheckOwner());
    MutexLock lock(send_mutex_);
    SHARDWAY_RETURN_IF_ERROR(PassDescriptor(fd));
    uint32_t flags = fd >= 0 ? kFrameFd : 0;
    do {
      const std::string_view piece = bytes.substr(0, DirectLimit());
      bytes.remove_prefix(piece.size());
      char* room;
      SHARDWAY_RETURN_IF_ERROR(AwaitRoom(piece.size(), &room));
      std::copy(piece.begin(), piece.end(), room);
      writer_.Commit(piece.size(), flags | (bytes.empty() ? 0 : kFrameMore));
      Wake();
      flags = 0;
    } while (!bytes.empty());
    return absl::OkStatus();
  }

  absl::StatusOr<bool> TrySendBytes(std::string_view bytes, int fd) override {
    SHARDWAY_RETURN_IF_ERROR(CheckOwner());
    MutexLock lock(send_mutex_);
    if (closed_.load(std::memory_order_relaxed)) return Closed();
    if (writer_.reader_closed()) return PeerGone("has closed the channel");
    if (bytes.size() > std::min(DirectLimit(), writer_.max_payload() / 2)) return false;
    bool broken;
    char* const room = writer_.Reserve(bytes.size(), &broken);
    if (broken) return Broken("its position in the ring is impossible");
    if (room == nullptr) {
      writer_.WakeReaderIfAsleep();
      return false;
    }
    SHARDWAY_RETURN_IF_ERROR(PassDescriptor(fd));
    std::copy(bytes.begin(), bytes.end(), room);
    writer_.Commit(bytes.size(), fd >= 0 ? kFrameFd : 0);
    Wake();
    return true;
  }

  void Cork() override { corks_.fetch_add(1); }
  void Uncork() override {
    if (corks_.fetch_sub(1) == 1 && guard_.InOwner()) writer_.WakeReaderIfAsleep();
  }

  absl::Status ReceiveBytes(std::string_view* bytes, Duration timeout, UniqueFd* fd) override {
    SHARDWAY_RETURN_IF_ERROR(CheckOwner());
    if (delivered_) ResetBuffer();
    TimePoint deadline = {};  // set when there is something to wait for: the clock costs time
    while (true) {
      RingReader::Frame frame;
      switch (reader_.Peek(&frame)) {
        case RingReader::State::kBroken:
          return Broken("its ring holds an impossible frame");
        case RingReader::State::kFrame:
          SHARDWAY_RETURN_IF_ERROR(TakeFrame(frame));
          if ((frame.flags & kFrameMore) != 0) continue;
          *bytes = buffer_;
          if (fd != nullptr) *fd = std::move(descriptor_);
          descriptor_.Reset();
          delivered_ = true;
          return absl::OkStatus();
        case RingReader::State::kEmpty:
          break;
      }
      SHARDWAY_RETURN_IF_ERROR(AwaitData(timeout, &deadline));
    }
  }

  bool HasMore() override { return guard_.InOwner() && !reader_.empty(); }

  void Close() override {
    if (!guard_.InOwner() || closed_.exchange(true)) return;
    writer_.Close();
    reader_.Close();
    Rouse();
    // Whatever the peer did to the rings, it sees this. Descriptors on their way still arrive.
    shutdown(socket_.get(), SHUT_WR);
  }

  int peer_pid() const override { return peer_pid_; }

 private:
  // Whoever waits at this end looks, now and from now on.
  void Rouse() {
    awake_.store(true);
    writer_.Interrupt();
    reader_.Interrupt();
  }

  uint64_t DirectLimit() const { return std::min(writer_.max_payload(), kPieceBytes); }

  absl::Status CheckOwner() const {
    if (guard_.InOwner()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "this process was forked from the one that is connected; it must open a connection of its "
        "own");
  }

  absl::Status Closed() const { return absl::CancelledError("the channel was closed at this end"); }

  absl::Status PeerGone(const char* how) const {
    return absl::UnavailableError(absl::StrCat("the peer process (pid ", peer_pid_, ") ", how));
  }

  // The peer can't be spoken with any more; everybody at this end learns it.
  absl::Status Broken(const char* why) {
    Close();
    return absl::DataLossError(
        absl::StrCat("the peer process (pid ", peer_pid_, ") broke the channel's format: ", why));
  }

  absl::Status PassDescriptor(int fd) SHARDWAY_REQUIRES(send_mutex_) {
    if (fd < 0) return absl::OkStatus();
    if (closed_.load()) return Closed();
    return SendDescriptor(socket_, fd, options_.send_timeout);
  }

  absl::Status AwaitRoom(uint64_t payload, char** room) SHARDWAY_REQUIRES(send_mutex_) {
    TimePoint deadline = {};
    while (true) {
      if (closed_.load(std::memory_order_relaxed)) return Closed();
      if (writer_.reader_closed()) return PeerGone("has closed the channel");
      bool broken;
      *room = writer_.Reserve(payload, &broken);
      if (*room != nullptr) return absl::OkStatus();
      if (broken) return Broken("its position in the ring is impossible");
      const TimePoint now = Now();
      if (deadline == TimePoint{}) {
        deadline = now + options_.send_timeout;
      } else if (watch_.Gone()) {
        return PeerGone("has died");
      } else if (now >= deadline) {
        Close();
        return absl::DeadlineExceededError(
            absl::StrCat("the peer process (pid ", peer_pid_, ") has read nothing for ",
                         options_.send_timeout / std::chrono::milliseconds(1),
                         " ms and its channel is full; the channel is closed"));
      }
      writer_.WakeReaderIfAsleep();  // corked messages must not wait for themselves
      writer_.WaitForRoom(payload, std::min<Duration>(look_at_peer_, deadline - now), awake_);
    }
  }

  void Wake() {
    if (corks_.load() == 0) writer_.WakeReaderIfAsleep();
  }

  // Copies the frame to the message being assembled.
  absl::Status TakeFrame(const RingReader::Frame& frame) {
    if (buffer_.size() + frame.size > kMaxMessageBytes) return Broken("a message over the limit");
    if ((frame.flags & kFrameFd) != 0) {
      auto descriptor = ReceiveDescriptor(socket_, kDescriptorWait);
      if (!descriptor.ok()) {
        Close();
        return descriptor.status();
      }
      descriptor_ = *std::move(descriptor);
    }
    buffer_.append(frame.payload, frame.size);
    reader_.Consume(frame);
    return absl::OkStatus();
  }

  void ResetBuffer() {
    delivered_ = false;
    if (buffer_.capacity() > kKeepBuffer) {
      std::string().swap(buffer_);
    } else {
      buffer_.clear();
    }
  }

  // Waits until there may be a frame, or says why none will come.
  absl::Status AwaitData(Duration timeout, TimePoint* deadline) {
    if (closed_.load()) return Closed();
    // What a peer sent before its end is there before the end shows: look at the ring once more.
    if (reader_.writer_closed()) {
      return reader_.empty() ? PeerGone("has closed the channel") : absl::OkStatus();
    }
    const TimePoint now = Now();
    if (*deadline == TimePoint{}) {
      *deadline = timeout > std::chrono::hours(24 * 365) ? TimePoint::max() : now + timeout;
      if (Spin()) return absl::OkStatus();
    } else if (watch_.Gone()) {
      return reader_.empty() ? PeerGone("has died") : absl::OkStatus();
    }
    if (now >= *deadline) return absl::DeadlineExceededError("no message has come in time");
    reader_.WaitForData(std::min<Duration>(look_at_peer_, *deadline - now), awake_);
    return absl::OkStatus();
  }

  bool Spin() {
    if (options_.spin <= Duration::zero()) return false;
    const TimePoint end = Now() + options_.spin;
    do {
      for (int i = 0; i < 32; ++i) {
        if (!reader_.empty()) return true;
        CpuRelax();
      }
    } while (Now() < end);
    return false;
  }

  const ChannelOptions options_;
  const ForkGuard guard_;
  const UniqueFd socket_;
  const int peer_pid_;
  std::atomic<bool> closed_{false};
  std::atomic<bool> awake_{false};  // closed, or the peer is gone

  Mutex send_mutex_;
  std::atomic<int> corks_{0};
  RingWriter writer_;  // its single-threaded functions: under send_mutex_

  // The reading thread's.
  RingReader reader_;
  std::string buffer_;  // the message being assembled, or the one delivered last
  bool delivered_ = false;
  UniqueFd descriptor_;  // came with the message being assembled

  const PeerWatch watch_;  // destroyed first: it calls Rouse
  const Duration look_at_peer_;
};

struct Half {
  UniqueFd socket;
  UniqueFd ring;
};

absl::StatusOr<Half> Greet(UniqueFd socket, const ChannelOptions& options) {
  SHARDWAY_ASSIGN_OR_RETURN(UniqueFd ring, RingMemory::Create(options.ring_bytes));
  SHARDWAY_RETURN_IF_ERROR(SendHello(socket, ring, options.ring_bytes));
  return Half{std::move(socket), std::move(ring)};
}

absl::StatusOr<std::unique_ptr<Channel>> Complete(Half half, const ChannelOptions& options) {
  SHARDWAY_ASSIGN_OR_RETURN(RingMemory outgoing, RingMemory::Map(half.ring, options.ring_bytes));
  SHARDWAY_ASSIGN_OR_RETURN(PeerHello peer, ReceiveHello(half.socket, options.handshake_timeout));
  SHARDWAY_ASSIGN_OR_RETURN(RingMemory incoming, RingMemory::Map(peer.ring, peer.ring_bytes));
  return std::make_unique<SharedMemoryChannel>(std::move(half.socket), std::move(outgoing),
                                               std::move(peer), std::move(incoming), options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Channel>> MakeSharedMemoryChannel(UniqueFd socket,
                                                                 ChannelOptions options) {
  SHARDWAY_ASSIGN_OR_RETURN(Half half, Greet(std::move(socket), options));
  return Complete(std::move(half), options);
}

absl::StatusOr<std::pair<std::unique_ptr<Channel>, std::unique_ptr<Channel>>> MakeChannelPair(
    ChannelOptions options) {
  SHARDWAY_ASSIGN_OR_RETURN(auto sockets, SocketPair());
  SHARDWAY_ASSIGN_OR_RETURN(Half left, Greet(std::move(sockets.first), options));
  SHARDWAY_ASSIGN_OR_RETURN(Half right, Greet(std::move(sockets.second), options));
  SHARDWAY_ASSIGN_OR_RETURN(auto first, Complete(std::move(left), options));
  SHARDWAY_ASSIGN_OR_RETURN(auto second, Complete(std::move(right), options));
  return std::make_pair(std::move(first), std::move(second));
}

}  // namespace shardway::wire
