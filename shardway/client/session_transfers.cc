// The session's arena and its reads.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/client/session_impl.h"
#include "shardway/wire/protocol.h"

namespace shardway::client {
namespace {

absl::Status TooLarge(uint64_t bytes, uint64_t arena) {
  return absl::ResourceExhaustedError(
      absl::StrCat("a transfer of ", bytes, " bytes does not fit into the session's arena of ",
                   arena, " bytes; split the array or give the machine more memory"));
}

}  // namespace

absl::StatusOr<SessionImpl::Blocks> SessionImpl::AwaitBlocks(uint64_t size, size_t count) {
  if (size > arena_->bytes() / count) return TooLarge(size * count, arena_->bytes());
  // One at a time: two that hold a part each and wait for the rest would wait for each other.
  MutexLock turn(put_mutex_);
  const TimePoint deadline = std::chrono::steady_clock::now() + options_.liveness;
  Blocks blocks;
  while (true) {
    while (blocks.size() < count) {
      const std::optional<uint64_t> block = arena_->Allocate(size);
      if (!block.has_value()) break;
      blocks.push_back(*block);
    }
    if (blocks.size() == count) return blocks;
    const TimePoint now = std::chrono::steady_clock::now();
    absl::Status status = LostStatus();
    if (status.ok() && now >= deadline) {
      status = absl::ResourceExhaustedError(absl::StrCat(
          "the session's arena of ", arena_->bytes(), " bytes stayed too full for ", count,
          " shards of ", size, " bytes (", arena_->used_bytes(), " in use by earlier transfers)"));
    }
    if (!status.ok()) {
      FreeBlocks(blocks);
      return status;
    }
    MutexLock lock(arena_mutex_);
    // Short sleeps: a block freed between the try above and this lock is not announced again.
    threads_->arena_freed.WaitFor(arena_mutex_, std::chrono::milliseconds(2));
  }
}

void SessionImpl::FreeBlocks(absl::Span<const uint64_t> offsets) {
  for (uint64_t offset : offsets) arena_->Free(offset);
  {
    MutexLock lock(arena_mutex_);
    threads_->arena_freed.NotifyAll();
  }
  MutexLock lock(house_mutex_);
  if (!waiting_reads_.empty() && house_idle_) threads_->house_wake.NotifyOne();
}

void SessionImpl::Read(ArrayId array, uint32_t shard, void* destination, size_t size,
                       DoneCallback callback) {
  if (!guard_.InOwner()) return callback(CheckOwner());
  ReadRequest request{array, shard, static_cast<char*>(destination), size, 0, std::move(callback)};
  if (size > wire::kMaxInlineBytes) {
    if (size > arena_->bytes()) return request.callback(TooLarge(size, arena_->bytes()));
    MutexLock lock(house_mutex_);
    std::optional<uint64_t> block;
    if (waiting_reads_.empty()) block = arena_->Allocate(size);
    if (!block.has_value()) {
      waiting_reads_.push_back(std::move(request));
      if (house_idle_) threads_->house_wake.NotifyOne();
      return;
    }
    request.offset = *block;
  }
  SendRead(std::move(request));
}

void SessionImpl::SendRead(ReadRequest request) {
  wire::ClientMessage message;
  wire::Read* read = message.mutable_read();
  const uint64_t id = next_request_.fetch_add(1);
  read->set_request(id);
  read->set_array(request.array.value);
  read->set_shard(request.shard);
  if (request.size > wire::kMaxInlineBytes) {
    read->set_offset(request.offset);
    read->set_size(request.size);
  }
  absl::Status lost;
  {
    MutexLock lock(pending_mutex_);
    lost = lost_;
    if (lost.ok()) reads_.emplace(id, std::move(request));
  }
  if (!lost.ok()) return request.callback(lost);
  MutexLock lock(send_mutex_);
  Send(message);
}

void SessionImpl::RetryWaitingReads() {
  while (true) {
    ReadRequest request;
    {
      MutexLock lock(house_mutex_);
      if (waiting_reads_.empty()) return;
      const std::optional<uint64_t> block = arena_->Allocate(waiting_reads_.front().size);
      if (!block.has_value()) return;
      request = std::move(waiting_reads_.front());
      request.offset = *block;
      // It stays the queue's head, so that frees wait, until it has been sent.
    }
    SendRead(std::move(request));
    MutexLock lock(house_mutex_);
    if (!waiting_reads_.empty()) waiting_reads_.pop_front();
  }
}

void SessionImpl::FinishRead(const wire::ReadDone& done) {
  ReadRequest request;
  {
    MutexLock lock(pending_mutex_);
    const auto found = reads_.find(done.request());
    if (found == reads_.end()) return;
    request = std::move(found->second);
    reads_.erase(found);
  }
  absl::Status status = wire::FromProto(done.status());
  if (request.size > wire::kMaxInlineBytes) {
    if (status.ok()) {
      std::memcpy(request.destination, arena_->Address(request.offset), request.size);
    }
    FreeBlocks({request.offset});
  } else if (status.ok()) {
    if (done.data().size() == request.size) {
      std::memcpy(request.destination, done.data().data(), request.size);
    } else {
      status = absl::InvalidArgumentError(
          absl::StrCat("shard ", request.shard, " of array ", request.array.value, " has ",
                       done.data().size(), " bytes, not ", request.size));
    }
  }
  request.callback(status);
}

}  // namespace shardway::client
