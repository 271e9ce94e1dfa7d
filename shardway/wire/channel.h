// A two-way channel of messages between two processes.
//
//   sender: Send(message), Send(message, fd), Batch { Send … }      any thread
//   reader: Receive(&message, timeout), HasMore()                   one thread at a time
//
// Messages arrive once, whole and in order. Nothing waits for ever: Receive has a timeout, Send
// waits at most Options::send_timeout for a reader that doesn't read, and both return within about
// 100 ms when the peer process ends. The peer is not trusted: whatever it writes, the worst outcome
// is an error from Receive. What a message says is the reader's to check (validate.h).
//
// Errors, of every function:
//   UNAVAILABLE        the peer closed the channel or died; the message says which. What it sent
//                      before is received first. Final.
//   CANCELLED          Close was called at this end. Final.
//   DEADLINE_EXCEEDED  Receive: nothing whole has arrived yet; call again. Send: the peer has read
//                      nothing for send_timeout; the channel is closed.
//   INVALID_ARGUMENT   Send: over kMaxMessageBytes. Receive: the message did not parse (it is
//                      consumed; the channel goes on).
//   DATA_LOSS          the peer broke the channel's format. Final.
#pragma once

#include <google/protobuf/message_lite.h>

#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardway/base/clock.h"
#include "shardway/wire/unique_fd.h"

namespace shardway::wire {

class Channel {
 public:
  virtual ~Channel() = default;  // closes; no other thread may be inside a function then
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Sends a message, and with it a duplicate of the descriptor `fd` when that is not -1 (the caller
  // keeps its own). Thread-safe.
  virtual absl::Status Send(const google::protobuf::MessageLite& message, int fd = -1) = 0;
  // The same for a message that is serialized already.
  virtual absl::Status SendBytes(std::string_view bytes, int fd = -1) = 0;

  // SendBytes that doesn't wait for the reader: false, and nothing is sent, when there is no room
  // now. What is larger than a quarter of the ring is never sent this way.
  virtual absl::StatusOr<bool> TrySendBytes(std::string_view bytes, int fd = -1) {
    const absl::Status sent = SendBytes(bytes, fd);
    if (!sent.ok()) return sent;
    return true;
  }

  // Between Cork and Uncork (they nest; any thread) messages go out without waking the reader: many
  // small ones cost one wake, at the last Uncork. A reader that is awake sees them at once. Keep it
  // short: other threads' messages are held as well. Use Batch.
  virtual void Cork() = 0;
  virtual void Uncork() = 0;

  // Receives the next message. `fd`, when given, gets the descriptor that came with it (invalid if
  // none did); otherwise a descriptor is closed.
  absl::Status Receive(google::protobuf::MessageLite* message, Duration timeout,
                       UniqueFd* fd = nullptr);
  // The same without parsing. `*bytes` stays valid until the next Receive.
  virtual absl::Status ReceiveBytes(std::string_view* bytes, Duration timeout,
                                    UniqueFd* fd = nullptr) = 0;

  // True when another message has begun to arrive: a reader that gathers its output sends it when
  // this turns false. Reader's thread; costs a few nanoseconds.
  virtual bool HasMore() = 0;

  // Ends both directions; the peer receives what was sent and then UNAVAILABLE. Thread-safe; wakes
  // whoever is blocked in Send or Receive at this end.
  virtual void Close() = 0;

  // The peer's process id as the kernel vouches for it; 0 when it can't tell (another machine).
  virtual int peer_pid() const = 0;

 protected:
  Channel() = default;
};

// Corks a channel while it lives.
class Batch {
 public:
  explicit Batch(Channel& channel) : channel_(channel) { channel_.Cork(); }
  ~Batch() { channel_.Uncork(); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

 private:
  Channel& channel_;
};

struct ChannelOptions {
  size_t ring_bytes = size_t{1} << 20;  // per direction; a power of two, at least a page
  Duration send_timeout = std::chrono::seconds(30);
  Duration handshake_timeout = std::chrono::seconds(30);
  // How long Receive looks for a message before it sleeps. Pays only where cores are idle.
  Duration spin = Duration::zero();
};

// A channel over shared memory (a ring each way; see ring.h) between processes of one machine.
// `socket` is a connected Unix socket whose other end does the same: the two exchange their rings
// over it, and later descriptors, and watch it for the other's death. Neither end is special.
// Blocks until the peer has answered, at most handshake_timeout.
//
// After a fork the child may destroy the object, and must not do anything else with it; the
// parent's channel is not disturbed.
absl::StatusOr<std::unique_ptr<Channel>> MakeSharedMemoryChannel(UniqueFd socket,
                                                                 ChannelOptions options = {});

// Two connected ends in one process.
absl::StatusOr<std::pair<std::unique_ptr<Channel>, std::unique_ptr<Channel>>> MakeChannelPair(
    ChannelOptions options = {});

}  // namespace shardway::wire
