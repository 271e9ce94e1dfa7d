#include "shardway/client/done_tracker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/wire/validate.h"

namespace shardway::client {

DoneTracker::~DoneTracker() {
  MutexLock lock(mutex_);
  for (auto& [seq, operation] : outstanding_) Unreference(operation);
  for (auto& [number, chunk] : arrays_) {
    for (Operation* maker : chunk->makers) {
      if (maker != nullptr) Unreference(maker);
    }
  }
}

absl::Status DoneTracker::Begin(uint64_t seq, ArrayId first, int count, Callback* done) {
  auto* operation = new Operation;
  operation->references = count + 1;
  MutexLock lock(mutex_);
  Chunk* chunk = nullptr;
  for (uint64_t id = first.value; id < first.value + count; ++id) {
    if (chunk == nullptr || id % kChunk == 0) {
      std::unique_ptr<Chunk>& found = arrays_[id / kChunk];
      if (found == nullptr) found = std::make_unique<Chunk>();
      chunk = found.get();
    }
    chunk->makers[id % kChunk] = operation;
    ++chunk->live;
  }
  if (!over_.ok()) {
    End(operation, over_, nullptr);
    return over_;
  }
  if (*done) operation->waiting.push_back(std::move(*done));
  outstanding_.emplace(seq, operation);
  return absl::OkStatus();
}

void DoneTracker::AwaitRoom() {
  MutexLock lock(mutex_);
  ++awaiting_room_;
  while (over_.ok() && outstanding_.size() >= kMaxOutstanding) room_.Wait(mutex_);
  --awaiting_room_;
}

// Not at the first free place: a wake-up for each operation would cost more than the operation.
void DoneTracker::WakeWaiting() {
  if (awaiting_room_ > 0 && (outstanding_.size() <= kMaxOutstanding / 2 || !over_.ok())) {
    room_.NotifyAll();
  }
}

void DoneTracker::Finish(const wire::Done& done) {
  std::vector<Call> calls;
  {
    MutexLock lock(mutex_);
    auto end = [&](uint64_t seq, const absl::Status& status) SHARDWAY_REQUIRES(mutex_) {
      const auto found = outstanding_.find(seq);
      if (found == outstanding_.end()) return;
      Operation* operation = found->second;
      outstanding_.erase(found);
      End(operation, status, &calls);
    };
    for (uint64_t seq : done.seqs()) end(seq, absl::OkStatus());
    for (const auto& failure : done.failures()) {
      end(failure.seq(), wire::FromProto(failure.status()));
    }
    WakeWaiting();
  }
  MakeCalls(std::move(calls));
}

void DoneTracker::FailAll(const absl::Status& status) {
  std::vector<Call> calls;
  {
    MutexLock lock(mutex_);
    if (!over_.ok()) return;
    over_ = status;
    for (auto& [seq, operation] : outstanding_) End(operation, status, &calls);
    outstanding_.clear();
    WakeWaiting();
  }
  MakeCalls(std::move(calls));
}

void DoneTracker::OnReady(ArrayId array, Callback callback) {
  absl::Status status;
  {
    MutexLock lock(mutex_);
    Operation** slot = FindSlot(array);
    if (slot == nullptr) {
      status = absl::InvalidArgumentError(
          absl::StrCat("array ", array.value, " does not exist; it was freed or never made"));
    } else if (Operation* maker = *slot; maker->ended) {
      status = maker->status;
    } else {
      maker->waiting.push_back(std::move(callback));
      return;
    }
  }
  callback(status);
}

bool DoneTracker::IsReady(ArrayId array) {
  MutexLock lock(mutex_);
  Operation** slot = FindSlot(array);
  return slot == nullptr || (*slot)->ended;
}

void DoneTracker::OnAllEnded(absl::AnyInvocable<void() &&> callback) {
  // Held by every outstanding operation; whoever lets go last calls.
  struct Last {
    absl::AnyInvocable<void() &&> callback;
    ~Last() { std::move(callback)(); }
  };
  const auto last = std::shared_ptr<Last>(new Last{std::move(callback)});
  MutexLock lock(mutex_);
  for (auto& [seq, operation] : outstanding_) {
    operation->waiting.emplace_back([last](const absl::Status&) {});
  }
}

bool DoneTracker::Free(ArrayId array) {
  MutexLock lock(mutex_);
  Operation** slot = FindSlot(array);
  if (slot == nullptr) return false;
  Unreference(*slot);
  *slot = nullptr;
  const auto chunk = arrays_.find(array.value / kChunk);
  if (--chunk->second->live == 0) arrays_.erase(chunk);
  return true;
}

DoneTracker::Operation** DoneTracker::FindSlot(ArrayId array) {
  const auto chunk = arrays_.find(array.value / kChunk);
  if (chunk == arrays_.end()) return nullptr;
  Operation** slot = &chunk->second->makers[array.value % kChunk];
  return *slot == nullptr ? nullptr : slot;
}

void DoneTracker::End(Operation* operation, const absl::Status& status, std::vector<Call>* calls) {
  operation->ended = true;
  operation->status = status;
  for (Callback& callback : operation->waiting) calls->push_back({std::move(callback), status});
  operation->waiting.clear();
  Unreference(operation);
}

void DoneTracker::Unreference(Operation* operation) {
  if (--operation->references == 0) delete operation;
}

void DoneTracker::MakeCalls(std::vector<Call> calls) {
  for (Call& call : calls) call.callback(call.status);
}

}  // namespace shardway::client
